//! Megatron-LM's full recompute: `--recompute-method uniform` and `block`.
//!
//! A replayed layer runs its whole forward again with its collectives. Uniform replays all layers
//! of a stage, so many at once; block replays the first so many layers one by one and retains the
//! others. The number is searched here; users of Megatron-LM try it out.

use std::time::Instant;

use super::best_of;
use crate::plan::planner::choice::{LayerGroup, Replay, SegmentChoice, StagePlan};
use crate::plan::planner::outcome::{Outcome, Planner};
use crate::plan::planner::problem::StageProblem;

/// All layers, so many at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uniform {
    /// How many at once; the best number if `None`.
    pub together: Option<usize>,
}

/// The first so many layers, one by one, with the best number.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Whether collectives are repeated, as Megatron-LM's are. If not, what comes out of them is
    /// kept.
    pub repeats: bool,
}

impl Default for Block {
    fn default() -> Self {
        Self { repeats: true }
    }
}

fn exposed(problem: &StageProblem, layers: usize, replay: Replay) -> LayerGroup {
    LayerGroup {
        layers,
        choices: vec![SegmentChoice::Exposed; problem.segments.len()],
        replay,
    }
}

/// All layers of a stage, so many at once.
pub(super) fn replayed(problem: &StageProblem, together: usize) -> StagePlan {
    let together = Replay::Layers(together);
    StagePlan {
        groups: vec![exposed(problem, problem.layers, together)],
    }
}

impl Planner for Uniform {
    fn name(&self) -> &str {
        "megatron full uniform"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let began = Instant::now();
        let counts = match self.together {
            Some(together) => together..=together,
            None => 1..=problem.layers,
        };
        best_of(problem, counts.map(|k| replayed(problem, k)), began)
    }
}

impl Planner for Block {
    fn name(&self) -> &str {
        if self.repeats {
            "megatron full block"
        } else {
            "full block without collectives"
        }
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let began = Instant::now();
        let replay = if self.repeats {
            Replay::Layers(1)
        } else {
            Replay::Segments
        };
        let plan = |replayed: usize| {
            let retained = vec![SegmentChoice::Retain; problem.segments.len()];
            let mut groups = vec![
                exposed(problem, replayed, replay),
                LayerGroup::new(problem.layers - replayed, retained),
            ];
            groups.retain(|group| group.layers > 0);
            StagePlan { groups }
        };
        best_of(problem, (0..=problem.layers).map(plan), began)
    }
}
