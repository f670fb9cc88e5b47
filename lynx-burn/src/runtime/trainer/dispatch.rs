//! From micro-batches to jobs for every worker, and back to what they yield.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{MicroBatch, ScheduleSource, TrainError, Trainer, overlap};
use crate::ids::{MicroBatchId, RankId, StageId};
use crate::plan::schedule::{
    InFlight, Rules, Schedule, ScheduleError, executable, forward_only, transfers, validate,
};
use crate::runtime::boundary::{Boundary, Lower};
use crate::runtime::chain::{Chain, Mode};
use crate::runtime::comm::ports;
use crate::runtime::exec::error::Cause;
use crate::runtime::exec::observer::RunStart;
use crate::runtime::exec::run::{Job, Outcome};
use crate::runtime::parcel::Parcel;
use crate::runtime::stage::Stage;

impl<C: Chain> Trainer<C> {
    /// Runs a job that cannot fail on every worker: stage by stage, rank by rank.
    pub(super) fn each<R: Send + 'static>(
        &mut self,
        job: impl Fn(&mut Stage<C>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, TrainError> {
        let jobs = (0..self.workers())
            .map(|_| {
                let job = job.clone();
                move |stage: &mut Stage<C>| Ok::<R, Cause>(job(stage))
            })
            .collect();
        Ok(self.crew.run(jobs)?)
    }

    /// Weighs the micro-batches and runs them; returns what each stage yields and each
    /// micro-batch's share of the loss.
    pub(super) fn run(
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

    pub(super) fn dispatch(
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
        let ranks = self.held.ranks();
        let stop = self.crew.stop_signal();
        // Rank r of a stage talks to rank r of its neighbours.
        let mut ports: Vec<_> = (0..ranks)
            .map(|_| ports::connect(stages, self.mailbox_capacity, self.link, stop).into_iter())
            .collect();
        if let Some(observer) = &self.observer {
            observer.run(&RunStart {
                step: self.step,
                mode,
                stages,
                ranks,
                micro_batches,
            });
        }
        let groups = std::mem::take(&mut self.groups);
        let jobs = groups
            .into_iter()
            .enumerate()
            .filter_map(|(worker, group)| {
                let (index, rank) = (worker / ranks, worker % ranks);
                let actions = schedule.stages[index].clone();
                let job = Job {
                    stage: StageId(index),
                    rank: RankId(rank),
                    step: self.step,
                    mode,
                    cool_down: overlap::cool_down(&self.schedule, stages, (index, &actions)),
                    actions,
                    ports: ports[rank].next()?,
                    group,
                    inputs: match index {
                        0 => inputs.clone(),
                        _ => BTreeMap::new(),
                    },
                    targets: match index + 1 == stages {
                        true => targets.clone(),
                        false => BTreeMap::new(),
                    },
                    position: self.crew.position(worker),
                    observer: self.observer.clone(),
                };
                Some(move |stage: &mut Stage<C>| job.run(stage))
            });
        let jobs = jobs.collect();
        drop((inputs, targets));
        tracing::debug!(step = self.step, micro_batches, ?mode, "running a schedule");
        let mut outcomes = self.crew.run(jobs)?;
        let groups = outcomes.iter_mut().map(|outcome| outcome.group.take());
        self.groups = groups.collect();
        Ok(outcomes)
    }

    pub(super) fn schedule(
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

/// The losses that the last stage's ranks read, in micro-batch order: each rank has a share.
pub(super) fn losses<C: Chain>(outcomes: &[Outcome<C>]) -> Vec<f64> {
    let mut sums = BTreeMap::new();
    for (&id, &share) in outcomes.iter().flat_map(|outcome| &outcome.losses) {
        *sums.entry(id).or_insert(0.0) += share;
    }
    sums.into_values().collect()
}

pub(super) fn weigh(losses: &[f64], shares: &[f64]) -> f64 {
    losses
        .iter()
        .zip(shares)
        .map(|(loss, share)| loss * share)
        .sum()
}

/// A caller's boundary, wherever its tensors live.
pub(super) fn from_outside<B: Boundary>(boundary: B) -> Parcel<B> {
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
