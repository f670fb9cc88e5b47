//! Which layers each stage gets, when recompute is part of a stage's time.
//!
//! [`Dealer`] asks a planner for every stage and number of layers that matter, once, and for
//! several at a time where there are processors for it; what it answers does not depend on how
//! many there are. A stage's layers are of one kind.
//!
//! It deals evenly, by parameters, by greedy moves of single layers (the paper's way), or exactly.
//! A step is taken to last `(m - 1)` times the slowest stage, once through all, and the transfers in
//! between; the simulator knows better. What is balanced is the slowest stage, then the sum.

use super::answers::Answers;
pub use super::answers::StageOutcome;
use super::deal_costs::{Parameters, Plain, Times};
use super::deal_error::DealError;
use super::min_max::{Layers, Range, min_max};
use super::outcome::{Change, Outcome, Planner};
use super::setup::Setup;
use crate::units::{Bytes, Nanos};

/// Deals layers to stages.
pub struct Dealer<'a> {
    setup: &'a Setup,
    layers: Layers,
    answers: Answers<'a>,
}

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
            layers: Layers::new(&kinds),
            answers: Answers::new(setup, planner),
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
        self.answers.ask(stages, |range| self.start_of(range));
    }

    /// Some layers of the model that are like this.
    pub(super) fn start_of(&self, range: Range) -> Option<std::ops::Range<usize>> {
        let start = self.layers.first(range)?;
        Some(start..start + range.1)
    }

    /// What is known of a stage with such layers.
    pub(super) fn answer(&self, stage: usize, range: Range) -> Option<StageOutcome> {
        self.answers.get(stage, range)?.ok()
    }

    pub(super) fn setup(&self) -> &Setup {
        self.setup
    }

    pub(super) fn planner(&self) -> &dyn Planner {
        self.answers.planner
    }

    fn stage(
        &self,
        stage: usize,
        layers: std::ops::Range<usize>,
    ) -> Result<StageOutcome, DealError> {
        let range = self.layers.range(layers.start, layers.len());
        match range.and_then(|range| self.answers.get(stage, range)) {
            Some(known) => known,
            // If they are of several kinds, the setup says so.
            None => self.answers.find(stage, layers),
        }
    }
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
