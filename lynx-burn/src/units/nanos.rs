//! Time as a whole number of nanoseconds.

use std::fmt;
use std::iter::Sum;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A span of time in nanoseconds. Arithmetic saturates, so that absurd inputs give an absurdly
/// long time and never a panic. Prints and parses with a unit: `12.3 ms`, `50us`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A text that is no span of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a span of time: write it like 50us, 1.5ms or 2s")]
pub struct ParseNanosError {
    text: String,
}

const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)];

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// The nearest whole number of nanoseconds. What is no number or negative is zero, and what is
    /// too long is the longest span there is.
    pub fn from_seconds(seconds: f64) -> Self {
        // The cast saturates and takes NaN to zero.
        Self((seconds * 1e9).round() as u64)
    }

    /// The span in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The sum, or the longest span there is.
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `count` such spans, or the longest span there is.
    pub fn saturating_mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// This share of the span, rounded to the nearest nanosecond.
    pub fn scaled(self, share: f64) -> Self {
        Self((self.0 as f64 * share).round() as u64)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Self::saturating_add)
    }
}

impl From<Duration> for Nanos {
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Nanos {
    type Err = ParseNanosError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseNanosError {
            text: text.to_owned(),
        };
        let others = [("us", 1_000), ("μs", 1_000), ("ns", 1)];
        let [seconds, shorter @ ..] = UNITS;
        // Every other name ends in an s too.
        let mut units = shorter.into_iter().chain(others).chain([seconds]);
        let (number, unit) = units
            .find_map(|(name, unit)| Some((text.trim().strip_suffix(name)?, unit)))
            .ok_or_else(refused)?;
        let number: f64 = number.trim_end().parse().map_err(|_| refused())?;
        let nanos = number * unit as f64;
        if nanos.is_finite() && (0.0..=u64::MAX as f64).contains(&nanos) {
            Ok(Self(nanos.round() as u64))
        } else {
            Err(refused())
        }
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, unit)| self.0 >= *unit) {
            Some((name, unit)) => f.pad(&format!("{:.1} {name}", self.0 as f64 / *unit as f64)),
            None => f.pad(&format!("{} ns", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Nanos;

    #[test]
    fn the_largest_fitting_unit_is_printed() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (12_340_000, "12.3 ms"),
            (2_000_000_000, "2.0 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
        assert_eq!(format!("{:>8}|", Nanos(1_500_000)), "  1.5 ms|");
    }

    #[test]
    fn spans_are_read_with_their_unit_and_nonsense_is_refused_with_its_text() {
        let cases = [
            ("50us", 50_000),
            ("1.5 ms", 1_500_000),
            ("2s", 2_000_000_000),
            (" 7ns ", 7),
            ("3µs", 3_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
        for text in ["", "s", "50", "-1us", "1e400s", "NaNms", "12 moons"] {
            let error = text.parse::<Nanos>().expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn seconds_that_are_no_span_become_the_nearest_one() {
        assert_eq!(Nanos::from_seconds(1.5e-6), Nanos(1500));
        for nothing in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(Nanos::from_seconds(nothing), Nanos::ZERO);
        }
        assert_eq!(Nanos::from_seconds(f64::INFINITY), Nanos(u64::MAX));
    }

    #[test]
    fn sums_and_differences_stop_at_the_ends() {
        let most = Nanos(u64::MAX);
        assert_eq!(most.saturating_add(Nanos(1)), most);
        assert_eq!([most, most].into_iter().sum::<Nanos>(), most);
        assert_eq!(most.saturating_mul(2), most);
        assert_eq!(Nanos(1).saturating_sub(Nanos(2)), Nanos::ZERO);
        assert_eq!(Nanos(10).scaled(0.25), Nanos(3));
    }
}
