//! How to measure.

use super::MeasureError;

/// How to measure a chain, and what cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureOptions {
    /// Rounds before those that count: caches fill, kernels are compiled and tuned. Default: 2.
    pub warm_up: usize,
    /// Rounds that count; each runs every segment once. Default: 7.
    pub repeats: usize,
    /// Whether every layer is measured, not one of each kind. Times are then medians over all
    /// layers of a kind, bytes the largest of them. Default: false.
    pub every_layer: bool,
    /// How many copies of a trainable parameter the optimizer keeps. Default: 2, the moments of
    /// AdamW: 8 bytes for an `f32`.
    pub optimizer_copies: u64,
    /// How many ranks share every segment. Default: 1.
    pub ranks: usize,
    /// What the profile is called. Default: the type of the chain.
    pub name: Option<String>,
    /// The tokens of the micro-batch, for throughput in reports. Default: unknown.
    pub tokens: Option<u64>,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        Self {
            warm_up: 2,
            repeats: 7,
            every_layer: false,
            optimizer_copies: 2,
            ranks: 1,
            name: None,
            tokens: None,
        }
    }
}

impl MeasureOptions {
    /// The most rounds, and the most copies: more is a slip.
    pub const MOST: usize = 10_000;

    pub(super) fn validate(&self) -> Result<(), MeasureError> {
        let figures = [
            ("repeats", self.repeats, 1),
            ("warm_up", self.warm_up, 0),
            ("ranks", self.ranks, 1),
            (
                "optimizer_copies",
                usize::try_from(self.optimizer_copies).unwrap_or(usize::MAX),
                0,
            ),
        ];
        for (option, value, least) in figures {
            if !(least..=Self::MOST).contains(&value) {
                return Err(MeasureError::Option {
                    option,
                    value,
                    least,
                    most: Self::MOST,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        let refused = |change: fn(&mut MeasureOptions)| {
            let mut options = MeasureOptions::default();
            change(&mut options);
            options.validate().expect_err("out of range").to_string()
        };
        let error = refused(|options| options.repeats = 0);
        assert!(error.starts_with("repeats is 0, "), "{error}");
        let error = refused(|options| options.warm_up = 20_000);
        assert!(error.starts_with("warm_up is 20000, "), "{error}");
        let error = refused(|options| options.optimizer_copies = u64::MAX);
        assert!(error.starts_with("optimizer_copies is "), "{error}");
        assert!(MeasureOptions::default().validate().is_ok());
    }
}
