//! Predicted against measured, as a table.

use lynx_burn::units::{Bytes, Nanos};

use super::figures::Figures;
use crate::table::{Table, duration};

/// What is told of as different.
const APART: f64 = 0.05;

/// A plan and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) predicted: Figures,
    /// Medians; of bytes the most.
    pub(super) measured: Figures,
    /// Of so many steps.
    pub(super) steps: usize,
}

impl Outcome {
    /// A row for each figure, with what was measured as a share of what was predicted.
    pub(super) fn table(&self) -> String {
        let (predicted, measured) = (&self.predicted, &self.measured);
        let steps = format!("plan against {} steps", self.steps);
        let mut table = Table::new([steps.as_str(), "predicted", "measured", "ratio"]);
        let times = [
            ("forwards and backwards", predicted.time, measured.time),
            ("recompute exposed", predicted.exposed, measured.exposed),
            ("recompute hidden", predicted.hidden, measured.hidden),
        ];
        for (name, predicted, measured) in times {
            table.row([
                name.to_owned(),
                duration(predicted),
                duration(measured),
                ratio(predicted.0, measured.0),
            ]);
        }
        for (stage, (predicted, measured)) in self.activations().enumerate() {
            table.row([
                format!("activations, stage {stage}"),
                predicted.to_string(),
                measured.to_string(),
                ratio(predicted.0, measured.0),
            ]);
        }
        table.to_string()
    }

    /// Predicted and measured bytes of each stage.
    pub(super) fn activations(&self) -> impl Iterator<Item = (Bytes, Bytes)> {
        let predicted = self.predicted.activations.iter().copied();
        predicted.zip(self.measured.activations.iter().copied())
    }

    /// Whether anything differs by more than 5 %.
    pub(super) fn differs(&self) -> bool {
        self.times_differ() || self.bytes_differ()
    }

    /// Whether a time does. Recompute of less than a hundredth of the step is not looked at.
    pub(super) fn times_differ(&self) -> bool {
        let (predicted, measured) = (&self.predicted, &self.measured);
        let least = measured.time.0 / 100;
        let differ = |predicted: Nanos, measured: Nanos| {
            predicted.0.abs_diff(measured.0) > least && apart(predicted.0, measured.0)
        };
        differ(predicted.time, measured.time)
            || differ(predicted.exposed, measured.exposed)
            || differ(predicted.hidden, measured.hidden)
    }

    /// Whether bytes do.
    pub(super) fn bytes_differ(&self) -> bool {
        self.activations()
            .any(|(predicted, measured)| apart(predicted.0, measured.0))
    }
}

fn apart(predicted: u64, measured: u64) -> bool {
    predicted.abs_diff(measured) as f64 > APART * predicted as f64
}

fn ratio(predicted: u64, measured: u64) -> String {
    match (predicted, measured) {
        (0, 0) => "1.00".to_owned(),
        (0, _) => "-".to_owned(),
        _ => format!("{:.2}", measured as f64 / predicted as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(times: [(u64, u64); 3], bytes: (u64, u64)) -> Outcome {
        let side = |of: fn((u64, u64)) -> u64| Figures {
            time: Nanos(of(times[0])),
            exposed: Nanos(of(times[1])),
            hidden: Nanos(of(times[2])),
            activations: vec![Bytes(of(bytes))],
        };
        Outcome {
            predicted: side(|pair| pair.0),
            measured: side(|pair| pair.1),
            steps: 7,
        }
    }

    #[test]
    fn five_percent_are_no_difference_and_a_little_recompute_is_none() {
        let same = outcome([(1000, 1050), (0, 9), (100, 105)], (1000, 950));
        assert!(!same.differs(), "{}", same.table());
        for other in [
            outcome([(1000, 1051), (0, 9), (100, 105)], (1000, 950)),
            outcome([(1000, 1000), (0, 11), (100, 105)], (1000, 950)),
            outcome([(1000, 1000), (0, 0), (300, 280)], (1000, 950)),
        ] {
            assert!(other.times_differ() && !other.bytes_differ());
        }
        let more = outcome([(1000, 1000), (0, 0), (100, 100)], (1000, 1051));
        assert!(more.bytes_differ() && !more.times_differ());
    }

    #[test]
    fn every_figure_has_its_ratio() {
        let text = outcome([(1000, 1250), (0, 9), (0, 0)], (2048, 1024)).table();
        let ratios: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_whitespace().last())
            .collect();
        assert_eq!(ratios, ["ratio", "1.25", "-", "1.00", "0.50"], "{text}");
    }
}
