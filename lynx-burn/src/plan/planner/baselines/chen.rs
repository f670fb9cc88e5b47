//! Chen et al., "Training deep nets with sublinear memory cost" (arXiv 1604.06174): a chain of `n`
//! layers is cut into about `sqrt(n)` lots; only the input of each is kept, and a lot is replayed
//! as a whole.

use std::time::Instant;

use super::best_of;
use super::megatron::replayed;
use crate::plan::planner::outcome::{Outcome, Planner};
use crate::plan::planner::problem::StageProblem;

/// Lots of `sqrt(n)` layers, rounded up, as few lots as that makes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chen;

impl Planner for Chen {
    fn name(&self) -> &str {
        "chen sqrt(n)"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let began = Instant::now();
        let root = problem.layers.isqrt();
        let up = root + usize::from(root * root < problem.layers);
        best_of(problem, [replayed(problem, up)], began)
    }
}
