//! OPT: every layer of a stage with choices of its own.
//!
//! First the layers are only counted (`counts`): that is a bound, and often the counted layers
//! can be put in an order that reaches it. Otherwise the program that names each layer
//! (`positions`) decides. The optimum is one of exposed time; among plans that expose as little,
//! no particular one is chosen.

use std::time::Duration;

use super::super::outcome::{Outcome, Planner};
use super::super::problem::StageProblem;
use super::counts::Counts;
use super::positions::Positions;
use super::search::{Search, TIGHTER};
use super::solver::Answer;
use super::stage::Stage;

/// Plans a stage with windows, every layer for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// After this time the best plan so far is the answer.
    pub time_limit: Duration,
}

impl Default for Opt {
    fn default() -> Self {
        Self {
            time_limit: Duration::from_secs(10),
        }
    }
}

/// Programs with more columns are not begun: what counting has found is the answer.
const MOST_COLUMNS: usize = 50_000;

impl Planner for Opt {
    fn name(&self) -> &str {
        "opt"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let mut search = match Search::new(problem, self.time_limit) {
            Ok(search) => search,
            Err(refused) => return refused,
        };
        if !search.is_done() {
            solve(problem, &mut search);
        }
        search.outcome()
    }
}

fn solve(problem: &StageProblem, search: &mut Search<'_>) {
    let Some(stage) = Stage::new(problem, search.most(), search.until()) else {
        return;
    };
    let segments = problem.segments.len();
    let counts = Counts::new(&stage, stage.has_best_order());
    let answer = counts.program.solve(search.left() / 4, &[]);
    search.prove(&stage, &answer);
    if let Answer::Values { values, .. } = &answer {
        search.offer(counts.plan(segments, values));
    }
    if search.is_done() {
        return;
    }
    let columns = problem
        .layers
        .saturating_mul(stage.any.len().max(stage.last.len()));
    if columns > MOST_COLUMNS {
        return;
    }
    if answer != Answer::Infeasible {
        name_layers(&stage, search);
    }
    if search.best().is_none() {
        let thrifty = Positions::new(&stage, true);
        let time = search.left().max(search.limit() / 10);
        if let Answer::Values { values, .. } = thrifty.program.solve(time, &[]) {
            search.offer_thrifty(thrifty.plan(segments, &values));
        }
    }
}

fn name_layers(stage: &Stage<'_>, search: &mut Search<'_>) {
    let segments = stage.problem.segments.len();
    let mut positions = Positions::new(stage, false);
    let start = search.best().and_then(|plan| positions.values(plan));
    let start = start.unwrap_or_default();
    let answer = positions.program.solve(search.left(), &start);
    search.prove(stage, &answer);
    if let Answer::Values { values, .. } = &answer
        && !search.offer(positions.plan(segments, values))
    {
        positions.program.tighten_bytes(TIGHTER);
        if let Answer::Values { values, .. } = positions.program.solve(search.left(), &[]) {
            search.offer(positions.plan(segments, &values));
        }
    }
}
