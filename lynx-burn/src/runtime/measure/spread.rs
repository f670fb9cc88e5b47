//! The middle of some times, and how far they lie apart.

use std::fmt;

use crate::units::Nanos;

/// The median and the quartiles of repeated times. A mean would carry every interruption of a
/// shared machine; a median carries none as long as fewer than half are interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Half of the times are at most this.
    pub median: Nanos,
    /// A quarter of the times are at most this.
    pub lower: Nanos,
    /// Three quarters of the times are at most this.
    pub upper: Nanos,
}

impl Spread {
    /// Of these times; of none, nothing. Between two times the value is interpolated.
    pub(super) fn of(times: &[Nanos]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |quarter: u64| {
            let Some(last) = sorted.len().checked_sub(1) else {
                return Nanos::ZERO;
            };
            let position = quarter * last as u64;
            let (index, rest) = ((position / 4) as usize, position % 4);
            let (low, high) = (sorted[index].0, sorted[(index + 1).min(last)].0);
            Nanos(low + (high - low) / 4 * rest + (high - low) % 4 * rest / 4)
        };
        Self {
            median: at(2),
            lower: at(1),
            upper: at(3),
        }
    }
}

impl fmt::Display for Spread {
    /// The median, and half of the distance between the quartiles as a share of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.median == Nanos::ZERO {
            return f.pad("-");
        }
        let half = self.upper.saturating_sub(self.lower).0 as f64 / 2.0;
        let share = 100.0 * half / self.median.0 as f64;
        f.pad(&format!("{} ±{share:.0}%", self.median))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[u64]) -> [u64; 3] {
        let times: Vec<Nanos> = times.iter().map(|&time| Nanos(time)).collect();
        let Spread {
            median,
            lower,
            upper,
        } = Spread::of(&times);
        [lower.0, median.0, upper.0]
    }

    #[test]
    fn quartiles_are_those_of_the_sorted_times() {
        assert_eq!(of(&[]), [0, 0, 0]);
        assert_eq!(of(&[7]), [7, 7, 7]);
        assert_eq!(of(&[50, 10, 40, 20, 30]), [20, 30, 40]);
        // Three steps of four: the lower quartile lies 3/4 of the way from 10 to 20, the median half
        // way from 20 to 40, the upper quartile 1/4 of the way from 40 to 80.
        assert_eq!(of(&[10, 20, 40, 80]), [17, 30, 50]);
    }

    #[test]
    fn one_interruption_does_not_move_the_median() {
        assert_eq!(of(&[10, 11, 12, 13, 1_000_000])[1], 12);
    }

    #[test]
    fn the_longest_times_do_not_overflow() {
        let [lower, median, upper] = of(&[0, u64::MAX]);
        assert!(lower < median && median < upper);
    }

    #[test]
    fn a_spread_reads_as_a_time_and_a_share_of_it() {
        let spread = Spread {
            median: Nanos(2_000_000),
            lower: Nanos(1_900_000),
            upper: Nanos(2_100_000),
        };
        assert_eq!(spread.to_string(), "2.0 ms ±5%");
        assert_eq!(Spread::default().to_string(), "-");
    }
}
