//! When steps have drifted from the plan far enough, and for long enough, to plan again.

use std::collections::VecDeque;

use lynx_burn::units::Nanos;

use super::figures::median;

/// How many of the last steps are looked at: one slow step is no drift.
const STEPS: usize = 5;

/// Steps against a plan.
#[derive(Clone, Debug)]
pub(super) struct Drift {
    /// The share that is too much.
    above: f64,
    /// The least steps between two plans; 0 for one plan only.
    every: u64,
    /// The same as things are.
    wait: u64,
    /// Steps since the last plan.
    since: u64,
    last: VecDeque<Nanos>,
}

impl Drift {
    pub(super) fn new(above: f64, every: u64) -> Self {
        Self {
            above,
            every,
            wait: every,
            since: 0,
            last: VecDeque::new(),
        }
    }

    /// A step was taken. If the median of the last ones is too far from what was predicted, and the
    /// last plan is long enough ago, it is told as a share of the prediction.
    pub(super) fn look(&mut self, time: Nanos, predicted: Nanos) -> Option<f64> {
        self.since += 1;
        self.last.push_back(time);
        if self.last.len() > STEPS {
            self.last.pop_front();
        }
        if self.every == 0 || self.since < self.wait || self.last.len() < STEPS {
            return None;
        }
        let ratio = median(self.last.iter().map(|time| time.0)) as f64 / predicted.0.max(1) as f64;
        ((ratio - 1.0).abs() > self.above).then_some(ratio)
    }

    /// It was planned again. Where that changed nothing, the drift is not the plan's to mend: twice
    /// as many steps pass before it is tried once more.
    pub(super) fn planned(&mut self, changed: bool) {
        self.wait = match changed {
            true => self.every,
            false => self.wait.saturating_mul(2),
        };
        self.since = 0;
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps, from 1, after which a drift is told of steps that take so long.
    fn told(mut drift: Drift, times: &[u64], changes: bool) -> Vec<usize> {
        let mut steps = Vec::new();
        for (step, &time) in times.iter().enumerate() {
            if drift.look(Nanos(time), Nanos(100)).is_some() {
                steps.push(step + 1);
                drift.planned(changes);
            }
        }
        steps
    }

    #[test]
    fn a_few_slow_steps_are_no_drift_and_most_of_the_last_five_are() {
        let few = [100, 500, 100, 500, 100, 100, 100, 500, 500, 100];
        assert_eq!(told(Drift::new(0.2, 1), &few, true), [0; 0]);
        let most = [100, 100, 500, 500, 500, 100];
        assert_eq!(told(Drift::new(0.2, 1), &most, true), [5]);
        // Faster is as wrong; 20 % is not more than 20 %.
        assert_eq!(told(Drift::new(0.2, 1), &[79; 5], true), [5]);
        assert_eq!(told(Drift::new(0.2, 1), &[120; 9], true), [0; 0]);
    }

    #[test]
    fn plans_are_so_many_steps_apart_and_twice_as_many_where_nothing_changes() {
        let slow = [200; 60];
        assert_eq!(told(Drift::new(0.2, 7), &slow, true)[..3], [7, 14, 21]);
        assert_eq!(told(Drift::new(0.2, 7), &slow, false), [7, 21, 49]);
        assert_eq!(told(Drift::new(0.0, 0), &slow, true), [0; 0]);
    }
}
