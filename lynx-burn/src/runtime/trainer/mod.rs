//! Trains a chain through a pipeline.
//!
//! A [`Trainer`] is made by a [`TrainerBuilder`] from a model and decisions about it: where it is
//! cut into stages, what is recomputed, in which order the stages work. [`Trainer::step`] then
//! takes the micro-batches of one optimizer step.

mod build;
mod builder;
mod error;
mod overlap;
mod report;
mod save;
mod update;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use burn::prelude::*;

pub use builder::{NonFinite, Split, TrainerBuilder};
pub use error::{BuildError, TrainError};
pub use overlap::Overlap;
pub use report::{BackwardReport, StepReport, UpdateReport};

use super::boundary::{Boundary, Lower};
use super::chain::{Chain, Mode};
use super::comm::ports;
use super::comm::speed::LinkSpeed;
use super::exec::crew::Crew;
use super::exec::error::Cause;
use super::exec::observer::{Observer, RunStart};
use super::exec::run::{Job, Outcome};
use super::parcel::Parcel;
use super::stage::Stage;
use crate::ids::{MicroBatchId, StageId};
use crate::plan::layout::ChainLayout;
use crate::plan::partition::Partition;
use crate::plan::schedule::{
    InFlight, Kind, Rules, Schedule, ScheduleError, executable, forward_only, transfers, validate,
};

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

/// A chain cut into stages, each with its thread, its parameters and its optimizer.
pub struct Trainer<C: Chain> {
    crew: Crew<C>,
    layout: ChainLayout,
    partition: Partition,
    schedule: ScheduleSource,
    mailbox_capacity: usize,
    /// Paths of parameters that several stages hold.
    tied: BTreeSet<String>,
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

    /// Optimizer steps taken.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Paths of parameters that several stages hold and that are kept equal.
    pub fn tied_parameters(&self) -> impl Iterator<Item = &str> {
        self.tied.iter().map(String::as_str)
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
    /// If there is nothing to weigh, the schedule does not fit, or a stage fails.
    pub fn backward(
        &mut self,
        micro_batches: Vec<MicroBatch<C>>,
    ) -> Result<BackwardReport, TrainError> {
        let (outcomes, shares) = self.run(micro_batches, Mode::Training)?;
        let losses = losses(&outcomes);
        let loss = weigh(&losses, &shares);
        self.loss_is_finite &= losses.iter().all(|loss| loss.is_finite());
        Ok(BackwardReport {
            loss,
            losses,
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
        let mut outcomes = self.dispatch(1, Mode::Evaluation, inputs, BTreeMap::new())?;
        outcomes
            .pop()
            .and_then(|mut last| last.outputs.remove(&id))
            .map(|parcel| parcel.boundary)
            .ok_or(TrainError::Ended)
    }

    /// The summed gradients since the last update, by parameter path.
    ///
    /// # Errors
    ///
    /// If the trainer is over.
    pub fn gradients(&mut self) -> Result<BTreeMap<String, TensorData>, TrainError> {
        let found = self.each(|stage| stage.gradients())?;
        Ok(update::sum_by_path(found)
            .into_iter()
            .map(|(path, gradient)| (path, gradient.data()))
            .collect())
    }

    /// The parameters, by path.
    ///
    /// # Errors
    ///
    /// If the trainer is over.
    pub fn parameters(&mut self) -> Result<BTreeMap<String, TensorData>, TrainError> {
        Ok(self
            .each(|stage| stage.parameters())?
            .into_iter()
            .flatten()
            .collect())
    }

    /// A copy of each stage's part of the model.
    ///
    /// # Errors
    ///
    /// If the trainer is over.
    pub fn modules(&mut self) -> Result<Vec<C>, TrainError> {
        self.each(|stage| stage.module().clone())
    }

    /// The schedule that a step of so many micro-batches runs, transfers included.
    ///
    /// # Errors
    ///
    /// If there is none that is sound.
    pub fn schedule_for(&mut self, micro_batches: usize) -> Result<Arc<Schedule>, TrainError> {
        self.schedule(micro_batches, true)
    }

    /// Runs a job that cannot fail on every stage.
    fn each<R: Send + 'static>(
        &mut self,
        job: impl Fn(&mut Stage<C>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, TrainError> {
        let jobs = (0..self.partition.stages())
            .map(|_| {
                let job = job.clone();
                move |stage: &mut Stage<C>| Ok::<R, Cause>(job(stage))
            })
            .collect();
        Ok(self.crew.run(jobs)?)
    }

    /// Weighs the micro-batches and runs them; returns what each stage yields and each
    /// micro-batch's share of the loss.
    fn run(
        &mut self,
        micro_batches: Vec<MicroBatch<C>>,
        mode: Mode,
    ) -> Result<(Vec<Outcome<C>>, Vec<f64>), TrainError> {
        let total: usize = micro_batches.iter().map(|batch| batch.weight).sum();
        if total == 0 {
            return Err(TrainError::NoWeight {
                micro_batches: micro_batches.len(),
            });
        }
        let count = micro_batches.len();
        let mut inputs = BTreeMap::new();
        let mut targets = BTreeMap::new();
        let mut shares = Vec::with_capacity(count);
        for (index, batch) in micro_batches.into_iter().enumerate() {
            let share = batch.weight as f64 / total as f64;
            shares.push(share);
            inputs.insert(MicroBatchId(index), from_outside(batch.input));
            targets.insert(
                MicroBatchId(index),
                (batch.target.map_tensors(&mut Lower), share),
            );
        }
        let outcomes = self.dispatch(count, mode, inputs, targets)?;
        Ok((outcomes, shares))
    }

    fn dispatch(
        &mut self,
        micro_batches: usize,
        mode: Mode,
        inputs: BTreeMap<MicroBatchId, Parcel<C::Boundary>>,
        targets: BTreeMap<MicroBatchId, (C::Target, f64)>,
    ) -> Result<Vec<Outcome<C>>, TrainError> {
        if self.crew.is_over() {
            return Err(TrainError::Ended);
        }
        let schedule = self.schedule(micro_batches, mode == Mode::Training)?;
        let stages = self.partition.stages();
        let ports = ports::connect(
            stages,
            self.mailbox_capacity,
            self.link,
            self.crew.stop_signal(),
        );
        if let Some(observer) = &self.observer {
            observer.run(&RunStart {
                step: self.step,
                mode,
                stages,
                micro_batches,
            });
        }
        let mut inputs = Some(inputs);
        let mut targets = Some(targets);
        let jobs = ports
            .into_iter()
            .enumerate()
            .map(|(index, ports)| {
                let actions = schedule.stages[index].clone();
                let job = Job {
                    stage: StageId(index),
                    step: self.step,
                    mode,
                    cool_down: overlap::cool_down(&self.schedule, stages, (index, &actions)),
                    actions,
                    ports,
                    inputs: inputs.take().unwrap_or_default(),
                    targets: if index + 1 == stages {
                        targets.take().unwrap_or_default()
                    } else {
                        BTreeMap::new()
                    },
                    position: self.crew.position(index),
                    observer: self.observer.clone(),
                };
                move |stage: &mut Stage<C>| job.run(stage)
            })
            .collect();
        tracing::debug!(step = self.step, micro_batches, ?mode, "running a schedule");
        Ok(self.crew.run(jobs)?)
    }

    fn schedule(
        &mut self,
        micro_batches: usize,
        training: bool,
    ) -> Result<Arc<Schedule>, TrainError> {
        if let Some(known) = self.schedules.get(&(micro_batches, training)) {
            return Ok(known.clone());
        }
        let stages = self.partition.stages();
        let capacity = self.mailbox_capacity;
        let made = match (&self.schedule, training) {
            (ScheduleSource::Given(given), true) => {
                if given.stages.len() != stages || given.micro_batches != micro_batches {
                    return Err(TrainError::ScheduleSize {
                        stages: given.stages.len(),
                        micro_batches: given.micro_batches,
                        wanted_stages: stages,
                        wanted_micro_batches: micro_batches,
                    });
                }
                given.clone()
            }
            (ScheduleSource::Kind(kind), true) => {
                let complete = with_transfers(&kind.generate(stages, micro_batches)?, capacity)?;
                validate(&complete, &kind.rules(capacity))?;
                executable(&complete)?;
                Arc::new(complete)
            }
            (_, false) => {
                let complete = with_transfers(&forward_only(stages, micro_batches)?, capacity)?;
                let rules = Rules {
                    mailbox_capacity: capacity,
                    in_flight: InFlight::Unlimited,
                    backward: false,
                };
                validate(&complete, &rules)?;
                Arc::new(complete)
            }
        };
        self.schedules
            .insert((micro_batches, training), made.clone());
        Ok(made)
    }
}

/// The losses that the last stage read, in micro-batch order.
fn losses<C: Chain>(outcomes: &[Outcome<C>]) -> Vec<f64> {
    outcomes
        .last()
        .map(|last| last.losses.values().copied().collect())
        .unwrap_or_default()
}

fn weigh(losses: &[f64], shares: &[f64]) -> f64 {
    losses
        .iter()
        .zip(shares)
        .map(|(loss, share)| loss * share)
        .sum()
}

/// A caller's boundary, wherever its tensors live.
fn from_outside<B: Boundary>(boundary: B) -> Parcel<B> {
    Parcel::from_outside(boundary.map_tensors(&mut Lower))
}

/// Adds transfers such that mailboxes of `capacity` suffice.
fn with_transfers(compute: &Schedule, capacity: usize) -> Result<Schedule, ScheduleError> {
    if capacity == 0 {
        transfers::rendezvous(compute)
    } else {
        Ok(transfers::eager(compute))
    }
}
