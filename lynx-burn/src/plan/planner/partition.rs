//! Which layers each stage gets, when recompute is part of a stage's time.
//!
//! [`Dealer`] asks a planner for every stage and number of layers that matter, once, and for
//! several at a time where there are processors for it; what it answers does not depend on how
//! many there are. A stage's layers are of one kind. It deals
//! evenly, by parameters, by greedy moves of single layers (the paper's way), or exactly. A step
//! is taken to last `(m - 1)` times the slowest stage, once through all, and the transfers in
//! between; the simulator knows better. What is balanced is the slowest stage, then the sum.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use super::deal_costs::{Parameters, Plain, Times};
use super::deal_error::DealError;
use super::min_max::{Layers, Range, min_max};
use super::outcome::{Change, Outcome, Planner};
use super::setup::Setup;
use crate::units::{Bytes, Nanos};

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

/// Deals layers to stages.
pub struct Dealer<'a> {
    setup: &'a Setup,
    planner: &'a dyn Planner,
    layers: Layers,
    known: Mutex<Known>,
}

/// Answers by stage and layers: those of one kind cost the same wherever they are.
type Known = HashMap<(usize, Range), Result<StageOutcome, DealError>>;

impl<'a> Dealer<'a> {
    /// A dealer with a planner inside.
    ///
    /// # Errors
    ///
    /// If there are more stages than layers or none, or the setup is none.
    pub fn new(setup: &'a Setup, planner: &'a dyn Planner) -> Result<Self, DealError> {
        let (stages, layers) = (setup.stages, setup.profile.layer_count());
        if stages == 0 || stages > layers {
            return Err(DealError::Stages { stages, layers });
        }
        setup.validate()?;
        let kinds = (0..layers).map(|layer| {
            setup
                .profile
                .kind_index(layer)
                .unwrap_or(setup.profile.kinds.len())
        });
        let kinds: Vec<usize> = kinds.collect();
        Ok(Self {
            setup,
            planner,
            layers: Layers::new(&kinds),
            known: Mutex::default(),
        })
    }

    /// As many layers for each stage; the first ones get what is left.
    pub fn even(&self) -> Vec<usize> {
        let (stages, layers) = (self.setup.stages, self.setup.profile.layer_count());
        let share = |stage| layers / stages + usize::from(stage < layers % stages);
        (0..stages).map(share).collect()
    }

    /// The largest share of parameters as small as possible, embedding and head included.
    pub fn by_parameters(&self) -> Vec<usize> {
        let mut costs = Parameters { dealer: self };
        min_max(self.setup.stages, &self.layers, &mut costs).unwrap_or_else(|| self.even())
    }

    /// From the even deal on, single layers go to a neighbour as long as that helps most. Where a
    /// stage would have layers of several kinds, the even deal is the one whose times without any
    /// recompute are most even.
    pub fn greedy(&self) -> Result<Vec<usize>, DealError> {
        let mut layers = self.even();
        if self.layers.ranges(&layers).is_none() {
            layers = self.balanced().unwrap_or(layers);
        }
        let mut value = self.badness(&layers)?;
        loop {
            let moves = self.moves(&layers);
            self.ask(&moves);
            let mut best = None;
            for moved in moves {
                let badness = self.badness(&moved)?;
                let beaten = best.as_ref().map_or(&value, |(known, _)| known);
                if badness < *beaten {
                    best = Some((badness, moved));
                }
            }
            match best {
                Some((better, moved)) => (value, layers) = (better, moved),
                None => return Ok(layers),
            }
        }
    }

    /// Every deal with one layer less on one stage and one more on its neighbour.
    fn moves(&self, layers: &[usize]) -> Vec<Vec<usize>> {
        let pairs = (1..layers.len()).flat_map(|at| [(at - 1, at), (at, at - 1)]);
        let moved = pairs
            .filter(|&(from, _)| layers[from] > 1)
            .map(|(from, to)| {
                let mut moved = layers.to_vec();
                moved[from] -= 1;
                moved[to] += 1;
                moved
            });
        moved
            .filter(|moved| self.layers.ranges(moved).is_some())
            .collect()
    }

    /// The best deal there is: least slowest stage, then least sum.
    ///
    /// # Errors
    ///
    /// If no deal fits, or stages cannot be described.
    pub fn exact(&self) -> Result<Vec<usize>, DealError> {
        let mut costs = Times::new(self);
        match min_max(self.setup.stages, &self.layers, &mut costs) {
            Some(found) => Ok(found),
            None => Err(self.infeasible(&self.greedy()?)?),
        }
    }

    /// The best deal if nothing were recomputed and all fitted.
    fn balanced(&self) -> Option<Vec<usize>> {
        let mut costs = Plain::new(self);
        min_max(self.setup.stages, &self.layers, &mut costs)
    }

    /// The answers for a deal.
    pub fn stages(&self, layers: &[usize]) -> Result<Vec<StageOutcome>, DealError> {
        self.ask(&[layers.to_vec()]);
        let mut start = 0;
        let mut all = Vec::with_capacity(layers.len());
        for (stage, &count) in layers.iter().enumerate() {
            all.push(self.stage(stage, start..start.saturating_add(count))?);
            start = start.saturating_add(count);
        }
        Ok(all)
    }

    /// How long a step takes with this deal.
    pub fn step(&self, layers: &[usize]) -> Result<Nanos, DealError> {
        let stages = self.stages(layers)?;
        let short = |stage: &StageOutcome| stage.outcome.feasible().is_none();
        if stages.iter().any(short) {
            return Err(self.infeasible(layers)?);
        }
        let slowest = stages
            .iter()
            .map(|stage| stage.steady)
            .max()
            .unwrap_or_default();
        let ramp: Nanos = stages.iter().map(|stage| stage.ramp).sum();
        let ways = (0..layers.len()).map(|stage| {
            let end = layers[..=stage].iter().sum();
            self.setup.transfer(stage, &(0..end)).saturating_mul(2)
        });
        let repeated = slowest.saturating_mul(self.setup.micro_batches.saturating_sub(1));
        Ok(repeated.saturating_add(ramp).saturating_add(ways.sum()))
    }

    fn infeasible(&self, layers: &[usize]) -> Result<DealError, DealError> {
        let mut worst: Option<(usize, Bytes, Change)> = None;
        for (stage, found) in self.stages(layers)?.into_iter().enumerate() {
            match found.outcome {
                Outcome::Refused { reason } => return Ok(DealError::Refused { stage, reason }),
                Outcome::Infeasible(short) if worst.is_none_or(|w| short.missing > w.1) => {
                    worst = Some((stage, short.missing, short.nearest));
                }
                _ => {}
            }
        }
        let (stage, missing, nearest) = worst.unwrap_or((0, Bytes(0), Change::Smaller));
        Ok(DealError::Infeasible {
            layers: layers.to_vec(),
            stage,
            missing,
            nearest,
        })
    }

    /// Missing bytes, then the slowest stage, then the sum: less is better.
    fn badness(&self, layers: &[usize]) -> Result<(u64, u64, u64), DealError> {
        let mut sum = (0, 0, 0_u64);
        for stage in self.stages(layers)? {
            let missing = match &stage.outcome {
                Outcome::Feasible(_) => 0,
                Outcome::Infeasible(short) => short.missing.0.max(1),
                Outcome::Refused { .. } => u64::MAX,
            };
            sum.0 = missing.max(sum.0);
            sum.1 = stage.steady.0.max(sum.1);
            sum.2 = sum.2.saturating_add(stage.ramp.0);
        }
        Ok(sum)
    }

    /// Finds the answers for all stages of these deals that are not known yet.
    fn ask(&self, deals: &[Vec<usize>]) {
        let ranges = deals.iter().filter_map(|deal| self.layers.ranges(deal));
        let all: Vec<_> = ranges
            .flat_map(|deal| deal.into_iter().enumerate())
            .collect();
        self.ask_for(&all);
    }

    /// The same for single stages.
    pub(super) fn ask_for(&self, stages: &[(usize, Range)]) {
        let mut wanted = stages.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|key| !self.known().contains_key(key));
        let find = |&key: &(usize, Range)| Some((key, self.find(key.0, self.start_of(key.1)?)));
        let found: Vec<_> = wanted.par_iter().filter_map(find).collect();
        self.known().extend(found);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Only whole answers are ever written.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some layers of the model that are like this.
    pub(super) fn start_of(&self, range: Range) -> Option<std::ops::Range<usize>> {
        let start = self.layers.first(range)?;
        Some(start..start + range.1)
    }

    /// What is known of a stage with such layers, and what it would be asked for.
    pub(super) fn answer(&self, stage: usize, range: Range) -> Option<StageOutcome> {
        self.known().get(&(stage, range))?.clone().ok()
    }

    pub(super) fn setup(&self) -> &Setup {
        self.setup
    }

    pub(super) fn planner(&self) -> &dyn Planner {
        self.planner
    }

    fn stage(
        &self,
        stage: usize,
        layers: std::ops::Range<usize>,
    ) -> Result<StageOutcome, DealError> {
        let Some(range) = self.layers.range(layers.start, layers.len()) else {
            // The setup knows why not.
            return self.find(stage, layers);
        };
        if let Some(known) = self.known().get(&(stage, range)) {
            return known.clone();
        }
        let found = self.find(stage, layers);
        self.known().insert((stage, range), found.clone());
        found
    }

    fn find(
        &self,
        stage: usize,
        layers: std::ops::Range<usize>,
    ) -> Result<StageOutcome, DealError> {
        let problem = self.setup.problem(stage, layers)?;
        let outcome = self.planner.plan(&problem);
        let plain = problem.forward.saturating_add(problem.backward);
        let (steady, ramp) = match outcome.feasible() {
            Some(found) if problem.steady == 0 => {
                (found.cost.cool_down_exposed, found.cost.cool_down_exposed)
            }
            Some(found) if problem.cool_down == 0 => (found.cost.exposed, found.cost.exposed),
            Some(found) => (found.cost.exposed, found.cost.cool_down_exposed),
            None => (Nanos::ZERO, Nanos::ZERO),
        };
        Ok(StageOutcome {
            outcome,
            steady: plain.saturating_add(steady),
            ramp: plain.saturating_add(ramp),
        })
    }
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
