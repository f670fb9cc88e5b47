//! Choices that ask for no search.

use std::time::Instant;

use super::best_of;
use crate::plan::planner::choice::{SegmentChoice, StagePlan};
use crate::plan::planner::outcome::{Outcome, Planner};
use crate::plan::planner::problem::StageProblem;

/// Every tape is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetainAll;

/// Segments of these names are recomputed, in every layer.
///
/// Megatron-LM's selective recompute: the core of attention (arXiv 2205.05198, section 5).
#[derive(Clone, Debug)]
pub struct Selective {
    /// The names.
    pub segments: Vec<String>,
}

/// Every segment is recomputed from the input of its layer and what came out of collectives: full
/// recompute that repeats none of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullByLayer;

impl Default for Selective {
    fn default() -> Self {
        Self {
            segments: vec!["attention".to_owned()],
        }
    }
}

fn uniform(problem: &StageProblem, choose: impl Fn(&str) -> SegmentChoice) -> StagePlan {
    let choices = problem.segments.iter().map(|segment| choose(&segment.name));
    StagePlan::uniform(problem.layers, choices.collect())
}

impl Planner for RetainAll {
    fn name(&self) -> &str {
        "retain all"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let plan = uniform(problem, |_| SegmentChoice::Retain);
        best_of(problem, [plan], Instant::now())
    }
}

impl Planner for Selective {
    fn name(&self) -> &str {
        "megatron selective"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let known = |name: &String| problem.segments.iter().any(|segment| segment.name == *name);
        if let Some(name) = self.segments.iter().find(|name| !known(name)) {
            let known: Vec<_> = problem
                .segments
                .iter()
                .map(|segment| &segment.name)
                .collect();
            return Outcome::Refused {
                reason: format!("no segment is named {name:?}; a layer has {known:?}"),
            };
        }
        let plan = uniform(problem, |name| {
            match self.segments.iter().any(|n| n == name) {
                true => SegmentChoice::Exposed,
                false => SegmentChoice::Retain,
            }
        });
        best_of(problem, [plan], Instant::now())
    }
}

impl Planner for FullByLayer {
    fn name(&self) -> &str {
        "full without collectives"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let plan = uniform(problem, |_| SegmentChoice::Exposed);
        best_of(problem, [plan], Instant::now())
    }
}
