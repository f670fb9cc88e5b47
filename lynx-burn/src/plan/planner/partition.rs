//! Which layers each stage gets, when recompute is part of a stage's time.
//!
//! [`Dealer`] asks a planner for every stage and number of layers that matter, once. It deals
//! evenly, by parameters, by greedy moves of single layers (the paper's way), or exactly. A step
//! is taken to last `(m - 1)` times the slowest stage, once through all, and the transfers in
//! between; the simulator knows better. What is balanced is the slowest stage, then the sum.

use std::cell::RefCell;
use std::collections::HashMap;

use super::deal_error::DealError;
use super::min_max::{Costs, min_max};
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
    /// Layers of one kind cost the same wherever they are.
    alike: bool,
    known: RefCell<HashMap<(usize, usize, usize), StageOutcome>>,
}

impl<'a> Dealer<'a> {
    /// A dealer with a planner inside.
    pub fn new(setup: &'a Setup, planner: &'a dyn Planner) -> Result<Self, DealError> {
        let (stages, layers) = (setup.stages, setup.profile.layer_count());
        if stages == 0 || stages > layers {
            return Err(DealError::Stages { stages, layers });
        }
        let first = setup.profile.layers.first().map(|run| &run.kind);
        let mut kinds = setup.profile.layers.iter();
        Ok(Self {
            setup,
            planner,
            alike: kinds.all(|run| Some(&run.kind) == first),
            known: RefCell::default(),
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
        let (stages, layers) = (self.setup.stages, self.setup.profile.layer_count());
        let mut costs = Parameters { setup: self.setup };
        let even = self.even();
        min_max(stages, layers, &even, &mut costs).unwrap_or(even)
    }

    /// From the even deal on, single layers go to a neighbour as long as that helps most.
    pub fn greedy(&self) -> Result<Vec<usize>, DealError> {
        let mut layers = self.even();
        let mut value = self.badness(&layers)?;
        loop {
            let mut best = None;
            for border in 1..layers.len() {
                for (from, to) in [(border - 1, border), (border, border - 1)] {
                    if layers[from] < 2 {
                        continue;
                    }
                    let mut moved = layers.clone();
                    moved[from] -= 1;
                    moved[to] += 1;
                    let badness = self.badness(&moved)?;
                    let beaten = best.as_ref().map_or(&value, |(known, _)| known);
                    if badness < *beaten {
                        best = Some((badness, moved));
                    }
                }
            }
            match best {
                Some((better, moved)) => (value, layers) = (better, moved),
                None => return Ok(layers),
            }
        }
    }

    /// The best deal there is: least slowest stage, then least sum.
    pub fn exact(&self) -> Result<Vec<usize>, DealError> {
        if !self.alike {
            // Costs depend on where a stage begins: the greedy way handles that.
            return self.greedy();
        }
        let (stages, layers) = (self.setup.stages, self.setup.profile.layer_count());
        let start = self.greedy()?;
        let mut costs = Times { dealer: self };
        match min_max(stages, layers, &start, &mut costs) {
            Some(found) => Ok(found),
            None => Err(self.infeasible(&start)?),
        }
    }

    /// The answers for a deal.
    pub fn stages(&self, layers: &[usize]) -> Result<Vec<StageOutcome>, DealError> {
        let mut start = 0;
        let mut all = Vec::with_capacity(layers.len());
        for (stage, &count) in layers.iter().enumerate() {
            all.push(self.stage(stage, start, count)?);
            start += count;
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

    fn stage(&self, stage: usize, start: usize, count: usize) -> Result<StageOutcome, DealError> {
        let start = if self.alike { 0 } else { start };
        let key = (stage, start, count);
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(known.clone());
        }
        let problem = self
            .setup
            .problem(stage, start..start.saturating_add(count))?;
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
        let found = StageOutcome {
            outcome,
            steady: plain.saturating_add(steady),
            ramp: plain.saturating_add(ramp),
        };
        self.known.borrow_mut().insert(key, found.clone());
        Ok(found)
    }
}

struct Times<'a> {
    dealer: &'a Dealer<'a>,
}

impl Costs for Times<'_> {
    fn least(&mut self, stage: usize, layers: usize) -> u64 {
        let problem = self.dealer.setup.problem(stage, 0..layers);
        problem.map_or(0, |p| p.forward.saturating_add(p.backward).0)
    }

    fn cost(&mut self, stage: usize, layers: usize) -> Option<(u64, u64)> {
        let found = self.dealer.stage(stage, 0, layers).ok()?;
        let feasible = found.outcome.feasible().is_some();
        feasible.then_some((found.steady.0, found.ramp.0))
    }
}

struct Parameters<'a> {
    setup: &'a Setup,
}

impl Costs for Parameters<'_> {
    fn least(&mut self, stage: usize, layers: usize) -> u64 {
        let problem = self.setup.problem(stage, 0..layers);
        problem.map_or(0, |problem| problem.fixed.0)
    }

    fn cost(&mut self, stage: usize, layers: usize) -> Option<(u64, u64)> {
        Some((self.least(stage, layers), 0))
    }
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
