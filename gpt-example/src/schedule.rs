//! The learning rate of each step: a linear warm-up, then half a cosine.

/// How the learning rate moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    /// At the end of the warm-up.
    pub peak: f64,
    /// At the last step.
    pub floor: f64,
    /// Steps of the warm-up.
    pub warmup: u64,
    /// All steps.
    pub steps: u64,
}

impl LearningRate {
    /// The rate of `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            // Not zero at step 0, which would be a step for nothing.
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let last = self.steps.saturating_sub(self.warmup + 1).max(1);
        let progress = ((step - self.warmup) as f64 / last as f64).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        self.floor + (self.peak - self.floor) * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::LearningRate;

    const PLAN: LearningRate = LearningRate {
        peak: 1.0,
        floor: 0.1,
        warmup: 10,
        steps: 111,
    };

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn it_rises_in_equal_parts_to_the_peak() {
        assert!(close(PLAN.at(0), 0.1));
        assert!(close(PLAN.at(4), 0.5));
        assert!(close(PLAN.at(9), 1.0));
        assert!(close(PLAN.at(10), 1.0));
    }

    #[test]
    fn it_is_half_way_in_the_middle_and_at_the_floor_at_the_end() {
        assert!(close(PLAN.at(60), 0.55));
        assert!(close(PLAN.at(110), 0.1));
        assert!(close(PLAN.at(1000), 0.1));
    }

    #[test]
    fn it_never_rises_after_the_warm_up() {
        assert!((10..110).all(|step| PLAN.at(step + 1) <= PLAN.at(step)));
    }

    #[test]
    fn a_run_of_one_step_and_a_run_of_warm_up_only_have_a_rate() {
        for (warmup, steps) in [(0, 1), (1, 1), (5, 5)] {
            let plan = LearningRate {
                warmup,
                steps,
                ..PLAN
            };
            assert!((0..steps).all(|step| plan.at(step) > 0.0));
        }
    }
}
