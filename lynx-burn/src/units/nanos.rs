//! Time as a whole number of nanoseconds.

use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};

/// A span of time in nanoseconds. Arithmetic saturates, so that absurd inputs give an absurdly
/// long time and never a panic. Prints with a unit: `12.3 ms`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

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
