//! Axes: which numbers to write at an axis, and how.

/// A span of values that is shown, and where its lines are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
    step: f64,
}

impl Scale {
    /// From the round number at or below `low` to the one at or above `high`, with some `wanted` lines.
    pub(super) fn around(low: f64, high: f64, wanted: usize) -> Self {
        let (low, high) = if low.is_finite() && high.is_finite() && low < high {
            (low, high)
        } else if low.is_finite() {
            (
                low - low.abs().max(1.0) / 10.0,
                low + low.abs().max(1.0) / 10.0,
            )
        } else {
            (0.0, 1.0)
        };
        let step = round_step((high - low) / wanted as f64);
        let first = (low / step).floor();
        let last = (high / step).ceil();
        let ticks = (first as i64..=last as i64).map(|tick| tick as f64 * step);
        Self {
            low: first * step,
            high: last * step,
            ticks: ticks.collect(),
            step,
        }
    }

    /// Exactly from `low` to `high`, with lines at the round numbers between.
    pub(super) fn between(low: f64, high: f64, wanted: usize) -> Self {
        let mut scale = Self::around(low, high, wanted);
        if low < high {
            (scale.low, scale.high) = (low, high);
            scale.ticks.retain(|tick| (low..=high).contains(tick));
        }
        scale
    }

    /// Where a value lies, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// A number as it is written beside its line.
    pub(super) fn label(&self, value: f64) -> String {
        let decimals = (-self.step.log10().floor()).clamp(0.0, 6.0) as usize;
        number(value, decimals)
    }
}

/// A number with its thousands apart.
pub(super) fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{grouped}{rest}")
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fits = |factor: &f64| factor * power >= step * (1.0 - 1e-9);
    factors.into_iter().find(fits).unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_at_round_numbers_around_the_values() {
        let scale = Scale::around(1.72, 5.61, 5);
        assert_eq!(scale.ticks, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!((scale.low, scale.high), (1.0, 6.0));
        assert_eq!(scale.place(3.5), 0.5);
        assert_eq!(scale.label(2.0), "2");
        assert_eq!(Scale::around(2.0, 2.1, 5).label(2.04), "2.04");
    }

    #[test]
    fn an_exact_scale_ends_where_the_values_end() {
        let scale = Scale::between(1.0, 700.0, 7);
        assert_eq!((scale.low, scale.high), (1.0, 700.0));
        assert_eq!(scale.ticks.first(), Some(&100.0));
        assert_eq!(scale.ticks.last(), Some(&700.0));
    }

    #[test]
    fn one_value_and_none_have_a_scale_too() {
        for (low, high) in [
            (3.0, 3.0),
            (0.0, 0.0),
            (f64::INFINITY, f64::NEG_INFINITY),
            (f64::NAN, 1.0),
        ] {
            for scale in [Scale::around(low, high, 5), Scale::between(low, high, 5)] {
                assert!(scale.low < scale.high, "{scale:?}");
                assert!((2..20).contains(&scale.ticks.len()), "{scale:?}");
            }
        }
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!(number(1_234_567.0, 0), "1,234,567");
        assert_eq!(number(-999.5, 1), "-999.5");
        assert_eq!(number(1000.0, 2), "1,000.00");
    }
}
