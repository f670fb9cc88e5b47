//! Dropout masks that nobody has to store.

use rayon::prelude::*;

use super::{CHUNK, StreamKey};

/// The probability that dropout lets an element through, in `(0, 1]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeepProbability(f64);

/// A dropout probability that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum DropoutError {
    /// Not a number in `[0, 1)`.
    #[error("dropout probability {0} is not in [0, 1)")]
    OutOfRange(f64),
}

impl KeepProbability {
    /// From the probability of *dropping* an element.
    ///
    /// # Errors
    ///
    /// [`DropoutError::OutOfRange`] unless `drop` is in `[0, 1)`.
    pub fn from_drop(drop: f64) -> Result<Self, DropoutError> {
        if drop.is_finite() && (0.0..1.0).contains(&drop) {
            Ok(Self(1.0 - drop))
        } else {
            Err(DropoutError::OutOfRange(drop))
        }
    }

    /// The probability itself.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// What a kept element is multiplied by, so that the expectation stays.
    pub(crate) fn scale(self) -> f32 {
        (1.0 / self.0) as f32
    }

    /// Kept elements are those whose random word is below this.
    pub(crate) fn threshold(self) -> u64 {
        (self.0 * (1u64 << 32) as f64).round() as u64
    }
}

/// Fills `mask` with `1 / keep` where an element is kept and `0` where it is dropped.
///
/// Element `i` depends on `key` and `i` only.
pub fn fill_dropout_mask(key: StreamKey, keep: KeepProbability, mask: &mut [f32]) {
    let stream = key.open();
    let threshold = keep.threshold();
    let scale = keep.scale();
    mask.par_chunks_mut(CHUNK)
        .enumerate()
        .for_each(|(chunk, values)| {
            let first_block = (chunk * (CHUNK / 4)) as u64;
            for (block, values) in values.chunks_mut(4).enumerate() {
                let words = stream.block(first_block + block as u64);
                for (value, word) in values.iter_mut().zip(words) {
                    *value = if u64::from(word) < threshold {
                        scale
                    } else {
                        0.0
                    };
                }
            }
        });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: StreamKey = StreamKey {
        seed: 11,
        step: 3,
        micro_batch: 1,
        segment: 7,
        site: 0,
    };

    #[test]
    fn probabilities_outside_the_half_open_unit_interval_are_refused() {
        for drop in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
            assert!(KeepProbability::from_drop(drop).is_err(), "{drop}");
        }
    }

    #[test]
    fn the_kept_share_is_the_probability() {
        let n = 1 << 20;
        for drop in [0.1, 0.5, 0.9] {
            let mut mask = vec![0.0; n];
            let keep = KeepProbability::from_drop(drop).expect("valid");
            fill_dropout_mask(KEY, keep, &mut mask);
            let kept = mask.iter().filter(|&&m| m != 0.0).count() as f64 / n as f64;
            // Six standard deviations of a binomial share.
            let bound = 6.0 * (drop * (1.0 - drop) / n as f64).sqrt();
            assert!((kept - keep.get()).abs() < bound, "drop {drop}: {kept}");
            assert!(
                mask.iter()
                    .all(|&m| m == 0.0 || m == (1.0 / keep.get()) as f32)
            );
        }
    }

    #[test]
    fn nothing_is_dropped_at_probability_zero() {
        let mut mask = vec![0.0; 1000];
        fill_dropout_mask(
            KEY,
            KeepProbability::from_drop(0.0).expect("valid"),
            &mut mask,
        );
        assert!(mask.iter().all(|&m| m == 1.0));
    }

    proptest! {
        /// A longer mask begins with the shorter one, and the number of threads changes nothing.
        #[test]
        fn an_element_depends_on_its_index_only(short in 1usize..40_000, more in 0usize..40_000) {
            let keep = KeepProbability::from_drop(0.3).expect("valid");
            let mut a = vec![0.0; short];
            let mut b = vec![0.0; short + more];
            let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
            one.install(|| fill_dropout_mask(KEY, keep, &mut a));
            fill_dropout_mask(KEY, keep, &mut b);
            prop_assert_eq!(&a[..], &b[..short]);
        }
    }
}
