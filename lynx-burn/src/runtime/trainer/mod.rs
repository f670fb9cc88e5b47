//! Trains a chain through a pipeline.
//!
//! A [`Trainer`] is made by a [`TrainerBuilder`] from a model and decisions about it: where it is
//! cut into stages, what is recomputed, in which order the stages work. [`Trainer::step`] then
//! takes the micro-batches of one optimizer step. Where there are several replicas of the pipeline,
//! it deals them.

mod build;
mod builder;
mod devices;
mod dispatch;
mod error;
mod held;
mod overlap;
mod ranks;
mod rehearsal;
mod replan;
mod replicas;
mod report;
mod sample;
mod save;
mod schedules;
mod update;
#[cfg(feature = "train")]
mod whole;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use burn::prelude::*;

pub use builder::{NonFinite, Split, TrainerBuilder};
pub use error::{BuildError, ReplanError, TrainError};
pub use overlap::Overlap;
pub use rehearsal::{Rehearsal, Rehearsed};
pub use report::{BackwardReport, StepReport, UpdateReport};

use self::dispatch::{from_outside, losses, weigh};
use self::held::Held;
use self::overlap::Told;
use super::chain::{Chain, Mode};
use super::comm::collective::Groups;
use super::comm::speed::LinkSpeed;
use super::exec::crew::Crew;
use super::exec::error::Cause;
use super::exec::grid::Grid;
use super::exec::observer::Observer;
use super::stage::Stage;
use crate::ids::MicroBatchId;
use crate::plan::layout::ChainLayout;
use crate::plan::partition::Partition;
use crate::plan::schedule::{Kind, Schedule};
use crate::units::Nanos;

/// One micro-batch of a step.
///
/// Its tensors may be on any device: the input is moved to the first stage's, the target to the
/// last one's.
#[derive(Clone, Debug)]
pub struct MicroBatch<C: Chain> {
    /// What the first segment receives.
    pub input: C::Boundary,
    /// What the loss compares with.
    pub target: C::Target,
    /// How much the micro-batch's mean loss counts: its samples, or its tokens.
    ///
    /// The step's loss is the mean of the micro-batches' losses weighted by this, so uneven
    /// micro-batches give the loss and the gradients of the undivided batch.
    pub weight: usize,
}

/// A chain cut into stages, each with its thread, its parameters and its optimizer; of several ranks
/// to a stage, each rank, and of several replicas, each replica's.
pub struct Trainer<C: Chain> {
    crew: Crew<C>,
    layout: ChainLayout,
    partition: Partition,
    told: Told,
    schedule: ScheduleSource,
    mailbox_capacity: usize,
    grid: Grid,
    /// Which worker of a pipeline holds what.
    held: Held,
    /// Whom every worker sums with.
    groups: Vec<Groups>,
    clip_norm: Option<f64>,
    non_finite: NonFinite,
    observer: Option<Arc<dyn Observer>>,
    link: Option<LinkSpeed>,
    step: u64,
    schedules: HashMap<(usize, bool), Arc<Schedule>>,
    /// The loss of a backward that has not been applied was not a number.
    loss_is_finite: bool,
}

/// Where schedules come from.
#[derive(Clone, Debug)]
enum ScheduleSource {
    Kind(Kind),
    /// Complete, transfers included, for one number of micro-batches.
    Given(Arc<Schedule>),
}

impl<C: Chain> std::fmt::Debug for Trainer<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("partition", &self.partition)
            .field("schedule", &self.schedule)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl<C: Chain> Trainer<C> {
    /// The chain's segments.
    pub fn layout(&self) -> &ChainLayout {
        &self.layout
    }

    /// Which segments each stage holds.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// How many ranks share each stage.
    pub fn ranks(&self) -> usize {
        self.grid.ranks
    }

    /// How many replicas of the pipeline train together.
    pub fn replicas(&self) -> usize {
        self.grid.replicas
    }

    /// Optimizer steps taken.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Paths of parameters that several stages hold and that are kept equal.
    pub fn tied_parameters(&self) -> impl Iterator<Item = &str> {
        self.held.tied().iter().map(String::as_str)
    }

    /// One optimizer step: [`backward`](Self::backward), then [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// Those of the two. After a [`TrainError::Stage`] the trainer is over; after the others it
    /// can go on.
    pub fn step(
        &mut self,
        learning_rate: f64,
        micro_batches: Vec<MicroBatch<C>>,
    ) -> Result<StepReport, TrainError> {
        let backward = self.backward(micro_batches)?;
        let update = self.update(learning_rate)?;
        Ok(StepReport { backward, update })
    }

    /// Takes the micro-batches forward and backward and adds up the gradients of the mean loss.
    ///
    /// # Errors
    ///
    /// If there is nothing to weigh, the micro-batches cannot be dealt to the replicas, the schedule
    /// does not fit, or a stage fails.
    pub fn backward(
        &mut self,
        micro_batches: Vec<MicroBatch<C>>,
    ) -> Result<BackwardReport, TrainError> {
        let begin = Instant::now();
        let (outcomes, shares) = self.run(micro_batches, Mode::Training)?;
        let time = Nanos::from(begin.elapsed());
        let losses = losses(&outcomes);
        let loss = weigh(&losses, &shares);
        self.loss_is_finite &= losses.iter().all(|loss| loss.is_finite());
        Ok(BackwardReport {
            loss,
            losses,
            time,
            stages: outcomes.into_iter().map(|outcome| outcome.report).collect(),
        })
    }

    /// The mean loss over micro-batches, without dropout and without gradients.
    ///
    /// # Errors
    ///
    /// As [`backward`](Self::backward).
    pub fn evaluate(&mut self, micro_batches: Vec<MicroBatch<C>>) -> Result<f64, TrainError> {
        let (outcomes, shares) = self.run(micro_batches, Mode::Evaluation)?;
        Ok(weigh(&losses(&outcomes), &shares))
    }

    /// The last segment's output, without dropout and without gradients.
    ///
    /// # Errors
    ///
    /// If a stage fails.
    pub fn predict(&mut self, input: C::Boundary) -> Result<C::Boundary, TrainError> {
        let id = MicroBatchId(0);
        let inputs = BTreeMap::from([(id, from_outside(input))]);
        let outcomes = self.dispatch(1, Mode::Evaluation, inputs, BTreeMap::new())?;
        let outputs = outcomes.into_iter();
        let outputs = outputs.filter_map(|mut outcome| outcome.outputs.remove(&id));
        let outputs: Vec<_> = outputs.map(|parcel| parcel.boundary).collect();
        let mut outputs = Some(outputs);
        let jobs = (0..self.grid.workers())
            .map(|_| {
                let outputs = outputs.take();
                move |stage: &mut Stage<C>| {
                    let joined = outputs.map(|outputs| stage.module().join_outputs(outputs));
                    Ok::<_, Cause>(joined.flatten())
                }
            })
            .collect();
        let joined = self.crew.run(jobs)?;
        joined.into_iter().flatten().next().ok_or(TrainError::Ended)
    }

    /// The summed gradients since the last update, by parameter path.
    ///
    /// # Errors
    ///
    /// If the trainer is over.
    pub fn gradients(&mut self) -> Result<BTreeMap<String, TensorData>, TrainError> {
        let found = self.first_replica(|stage| stage.gradients())?;
        Ok(self.held.unite_gradients(found))
    }

    /// The parameters, by path. All replicas have the same.
    ///
    /// # Errors
    ///
    /// If the trainer is over.
    pub fn parameters(&mut self) -> Result<BTreeMap<String, TensorData>, TrainError> {
        let found = self.first_replica(|stage| stage.parameters())?;
        Ok(self.held.unite_values(found))
    }

    /// A copy of each stage's part of the model; of several ranks, each rank's, rank by rank; of
    /// several replicas, each replica's, replica by replica.
    ///
    /// # Errors
    ///
    /// If the trainer is over.
    pub fn modules(&mut self) -> Result<Vec<C>, TrainError> {
        self.each(|stage| stage.module().clone())
    }

    /// The schedule that a step of so many micro-batches runs, transfers and reductions included: of
    /// several replicas, each with its share of them.
    ///
    /// # Errors
    ///
    /// If there is none that is sound.
    pub fn schedule_for(&mut self, micro_batches: usize) -> Result<Arc<Schedule>, TrainError> {
        let shares = self.deal(micro_batches, Mode::Training)?;
        self.schedule(shares[0].len(), true)
    }
}
