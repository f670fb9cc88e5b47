//! Numbers along an edge: round ones, in a unit that fits.

use super::canvas::Canvas;
use crate::units::{Bytes, Nanos};

const TIMES: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
const BYTES: [(&str, f64); 5] = [
    ("TiB", (1u64 << 40) as f64),
    ("GiB", (1u64 << 30) as f64),
    ("MiB", (1u64 << 20) as f64),
    ("KiB", (1u64 << 10) as f64),
    ("B", 1.0),
];

/// From values to places on the picture.
pub(super) struct Axis {
    unit: &'static str,
    unit_size: f64,
    max: f64,
    /// Between two marks, in units.
    mark: f64,
    /// The places of 0 and of the largest value.
    pub(super) place: (f64, f64),
}

impl Axis {
    /// From 0 to exactly `max`.
    pub(super) fn of_time(max: Nanos, place: (f64, f64)) -> Self {
        Self::new(&TIMES, max.0 as f64, 10.0, place)
    }

    /// From 0 to the first mark that is not below `max`.
    pub(super) fn of_bytes(max: Bytes, place: (f64, f64)) -> Self {
        let mut axis = Self::new(&BYTES, max.0 as f64, 5.0, place);
        let mark = axis.mark * axis.unit_size;
        axis.max = (axis.max / mark).ceil() * mark;
        axis
    }

    fn new(units: &[(&'static str, f64)], max: f64, marks: f64, place: (f64, f64)) -> Self {
        let max = max.max(1.0);
        let (unit, unit_size) = unit(units, max);
        // The least of 1, 2, 5, 10, 20, .. of which few enough are needed.
        let least = max / unit_size / marks;
        let decade = 10f64.powf(least.log10().floor());
        let round = [1.0, 2.0, 5.0].into_iter().map(|m| m * decade);
        Self {
            unit,
            unit_size,
            max,
            mark: round
                .into_iter()
                .find(|m| *m >= least)
                .unwrap_or(10.0 * decade),
            place,
        }
    }

    pub(super) fn at(&self, value: u64) -> f64 {
        let (from, to) = self.place;
        from + (to - from) * (value as f64 / self.max).min(1.0)
    }

    /// The marks: their places and their numbers.
    fn marks(&self) -> Vec<(f64, String)> {
        let decimals = (-self.mark.log10().floor()).clamp(0.0, 9.0) as usize;
        let count = (self.max / self.unit_size / self.mark + 1e-9).floor() as u64;
        let mark = |i| {
            let value = i as f64 * self.mark;
            let (from, to) = self.place;
            let place = from + (to - from) * value * self.unit_size / self.max;
            (place, format!("{value:.decimals$}"))
        };
        (0..=count).map(mark).collect()
    }

    /// A horizontal axis below rows that lie between two heights.
    pub(super) fn draw_below(&self, canvas: &mut Canvas, (top, bottom): (f64, f64), name: &str) {
        for (x, number) in self.marks() {
            canvas.line("grid", (x, top), (x, bottom + 5.0));
            canvas.text((x, bottom + 18.0), "number middle", &number);
        }
        let middle = (self.place.0 + self.place.1) / 2.0;
        let name = format!("{name} ({})", self.unit);
        canvas.text((middle, bottom + 36.0), "note middle", &name);
    }

    /// A vertical axis left of a plot between two places.
    pub(super) fn draw_beside(&self, canvas: &mut Canvas, (left, right): (f64, f64), name: &str) {
        for (y, number) in self.marks() {
            canvas.line("grid", (left - 5.0, y), (right, y));
            canvas.text((left - 9.0, y + 4.0), "number end", &number);
        }
        let name = format!("{name} ({})", self.unit);
        let (top, bottom) = (
            self.place.0.min(self.place.1),
            self.place.0.max(self.place.1),
        );
        canvas.upright((22.0, (top + bottom) / 2.0), "note middle", &name);
    }
}

fn unit(units: &[(&'static str, f64)], value: f64) -> (&'static str, f64) {
    let fits = units.iter().copied().find(|(_, size)| value >= *size);
    fits.or(units.last().copied()).unwrap_or(("", 1.0))
}

/// A time with its unit and three digits.
pub(super) fn duration(time: Nanos) -> String {
    let value = time.0 as f64;
    let (name, size) = unit(&TIMES, value);
    let value = value / size;
    let decimals = match value {
        _ if size == 1.0 || value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {name}")
}

#[cfg(test)]
mod tests {
    use super::{Axis, duration};
    use crate::units::{Bytes, Nanos};

    fn numbers(axis: &Axis) -> Vec<String> {
        axis.marks().into_iter().map(|(_, number)| number).collect()
    }

    #[test]
    fn marks_are_round_numbers_in_a_unit_that_fits() {
        let time = Axis::of_time(Nanos(3_300_000), (0.0, 330.0));
        assert_eq!(
            (time.unit, numbers(&time).join(" ")),
            ("ms", "0.0 0.5 1.0 1.5 2.0 2.5 3.0".to_owned())
        );
        assert_eq!(time.at(1_100_000), 110.0);
        let bytes = Axis::of_bytes(Bytes(9 << 30), (100.0, 0.0));
        assert_eq!(
            (bytes.unit, numbers(&bytes).join(" ")),
            ("GiB", "0 2 4 6 8 10".to_owned())
        );
        assert_eq!(bytes.at(5 << 30), 50.0);
    }

    #[test]
    fn nothing_and_the_largest_number_have_an_axis_too() {
        for max in [0, 1, u64::MAX] {
            for axis in [
                Axis::of_time(Nanos(max), (0.0, 9.0)),
                Axis::of_bytes(Bytes(max), (0.0, 9.0)),
            ] {
                let marks = axis.marks();
                assert!((2..=12).contains(&marks.len()), "{marks:?}");
                assert!(
                    marks.iter().all(|(place, _)| (0.0..=9.0).contains(place)),
                    "{marks:?}"
                );
            }
        }
    }

    #[test]
    fn durations_have_three_digits() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1234, "1.23 µs"),
            (56_789_000, "56.8 ms"),
            (234_000_000_000, "234 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(duration(Nanos(nanos)), text);
        }
    }
}
