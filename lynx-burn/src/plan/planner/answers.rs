//! What a planner answers about stages, asked once for each.

use std::collections::HashMap;
use std::ops;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use super::deal_error::DealError;
use super::evaluate::Cost;
use super::min_max::Range;
use super::outcome::{Outcome, Planner};
use super::setup::Setup;
use crate::units::Nanos;

/// A stage's answer and times, for one micro-batch.
#[derive(Clone, Debug)]
pub struct StageOutcome {
    /// The planner's answer.
    pub outcome: Outcome,
    /// Forward, backward and exposed recompute in the steady part.
    pub steady: Nanos,
    /// The same when the pipeline fills and drains.
    pub ramp: Nanos,
}

/// Answers by stage and layers: those of one kind cost the same wherever they are.
pub(super) struct Answers<'a> {
    setup: &'a Setup,
    pub(super) planner: &'a dyn Planner,
    known: Mutex<Known>,
}

type Answer = Result<StageOutcome, DealError>;
type Known = HashMap<(usize, Range), Answer>;

impl<'a> Answers<'a> {
    pub(super) fn new(setup: &'a Setup, planner: &'a dyn Planner) -> Self {
        Self {
            setup,
            planner,
            known: Mutex::default(),
        }
    }

    /// Finds those that are not known yet, several at a time. `place` tells which layers of the
    /// model to ask about.
    pub(super) fn ask(
        &self,
        stages: &[(usize, Range)],
        place: impl Fn(Range) -> Option<ops::Range<usize>> + Sync,
    ) {
        let mut wanted = stages.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|key| !self.known().contains_key(key));
        let find = |&key: &(usize, Range)| Some((key, self.find(key.0, place(key.1)?)));
        let found: Vec<_> = wanted.par_iter().filter_map(find).collect();
        self.known().extend(found);
    }

    /// What is known.
    pub(super) fn get(&self, stage: usize, range: Range) -> Option<Answer> {
        self.known().get(&(stage, range)).cloned()
    }

    /// Asks the planner.
    pub(super) fn find(&self, stage: usize, layers: ops::Range<usize>) -> Answer {
        let problem = self.setup.problem(stage, layers)?;
        let outcome = self.planner.plan(&problem);
        // Without a plan, nothing is recomputed.
        let cost = outcome
            .feasible()
            .map_or_else(Cost::default, |found| found.cost);
        Ok(StageOutcome {
            outcome,
            steady: cost.micro_batch(&problem),
            ramp: cost.ramp(&problem),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Only whole answers are ever written.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
