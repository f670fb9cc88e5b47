//! What a plan predicts of a step, and what steps were measured to take.

use lynx_burn::plan::planner::Plan;
use lynx_burn::units::{Bytes, Nanos};
use lynx_burn::{BackwardReport, Rehearsal};

/// A step: predicted, measured, or the median of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Forwards and backwards.
    pub(super) time: Nanos,
    /// Recompute on the critical path, all stages together, a rank of each in one replica.
    pub(super) exposed: Nanos,
    /// Recompute in waits, likewise.
    pub(super) hidden: Nanos,
    /// The most that a rank of each stage retains, in any replica.
    pub(super) activations: Vec<Bytes>,
}

impl Figures {
    /// What a plan predicts: times as planned, and bytes as rehearsed.
    pub(super) fn predicted(plan: &Plan, rehearsal: &Rehearsal) -> Self {
        Self {
            time: plan.step.time,
            exposed: plan.step.exposed,
            hidden: plan.step.hidden,
            activations: rehearsal.retained(),
        }
    }

    /// What a step took. Of several ranks and replicas, times are their means, and bytes those of the
    /// one that holds most.
    pub(super) fn measured(report: &BackwardReport) -> Self {
        let mut alike = 0;
        let mut activations: Vec<Bytes> = Vec::new();
        for worker in &report.stages {
            let stage = worker.stage.0;
            alike += u64::from(stage == 0);
            if activations.len() <= stage {
                activations.resize(stage + 1, Bytes(0));
            }
            activations[stage] = activations[stage].max(worker.retained_peak);
        }
        let mean = |time: Nanos| Nanos(time.0 / alike.max(1));
        Self {
            time: report.time,
            exposed: mean(report.exposed()),
            hidden: mean(report.hidden()),
            activations,
        }
    }

    /// The median of steps, figure by figure; of bytes the most.
    pub(super) fn of(steps: &[Self]) -> Self {
        let time = |of: fn(&Self) -> Nanos| Nanos(median(steps.iter().map(|step| of(step).0)));
        let stages = steps.iter().map(|step| step.activations.len()).max();
        let most = |stage: usize| {
            let all = steps.iter().filter_map(|step| step.activations.get(stage));
            all.max().copied().unwrap_or_default()
        };
        Self {
            time: time(|step| step.time),
            exposed: time(|step| step.exposed),
            hidden: time(|step| step.hidden),
            activations: (0..stages.unwrap_or(0)).map(most).collect(),
        }
    }
}

/// The middle of some numbers, the lower one of two; 0 of none.
pub(super) fn median(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut sorted: Vec<u64> = numbers.collect();
    sorted.sort_unstable();
    match sorted.len() {
        0 => 0,
        count => sorted[(count - 1) / 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_medians_and_bytes_the_most_of_all_steps() {
        let step = |time: u64, bytes: [u64; 2]| Figures {
            time: Nanos(time),
            exposed: Nanos(time / 2),
            hidden: Nanos(10 - time),
            activations: bytes.map(Bytes).to_vec(),
        };
        let steps = [step(9, [1, 7]), step(2, [5, 6]), step(4, [3, 3])];
        let expected = Figures {
            time: Nanos(4),
            exposed: Nanos(2),
            hidden: Nanos(6),
            activations: vec![Bytes(5), Bytes(7)],
        };
        assert_eq!(Figures::of(&steps), expected);
        assert_eq!(Figures::of(&[]), Figures::default());
    }
}
