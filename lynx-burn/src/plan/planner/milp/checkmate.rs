//! Checkmate: the best that recompute on the critical path can do.
//!
//! After Jain et al., *Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization*
//! (2020), which asks for the cheapest schedule of any graph under a budget. Here the graph is a
//! stage's chain of segments, each is made anew at most once a backward, just before the half of
//! the layer that needs it, and collectives are not repeated: the formulation is ours. Windows are
//! not used even where there are some.

use std::time::Duration;

use super::super::outcome::{Outcome, Planner};
use super::super::problem::StageProblem;
use super::counts::Counts;
use super::search::{Search, TIGHTER};
use super::solver::Answer;
use super::stage::Stage;

/// Plans a stage without windows, every layer for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkmate {
    /// After this time the best plan so far is the answer.
    pub time_limit: Duration,
}

impl Default for Checkmate {
    fn default() -> Self {
        Self {
            time_limit: Duration::from_secs(10),
        }
    }
}

impl Planner for Checkmate {
    fn name(&self) -> &str {
        "checkmate"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let problem = problem.without_windows();
        let mut search = match Search::new(&problem, self.time_limit) {
            Ok(search) => search,
            Err(refused) => return refused,
        };
        if !search.is_done() {
            solve(&problem, &mut search);
        }
        search.outcome()
    }
}

fn solve(problem: &StageProblem, search: &mut Search<'_>) {
    let Some(stage) = Stage::new(problem, search.most(), search.until()) else {
        return;
    };
    let segments = problem.segments.len();
    let mut counts = Counts::new(&stage, true);
    let answer = counts.program.solve(search.left(), &[]);
    search.prove(&stage, &answer);
    let kept = match &answer {
        Answer::Values { values, .. } => search.offer(counts.plan(segments, values)),
        Answer::Infeasible | Answer::Nothing { .. } => true,
    };
    if !kept {
        counts.program.tighten_bytes(TIGHTER);
        if let Answer::Values { values, .. } = counts.program.solve(search.left(), &[]) {
            search.offer(counts.plan(segments, &values));
        }
    }
    if search.best().is_none() {
        counts.program.relax_bytes();
        let time = search.left().max(search.limit() / 10);
        if let Answer::Values { values, .. } = counts.program.solve(time, &[]) {
            search.offer_thrifty(counts.plan(segments, &values));
        }
    }
}
