//! From micro-batches to jobs for every worker, and back to what they yield.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{MicroBatch, TrainError, Trainer, overlap, replicas};
use crate::ids::MicroBatchId;
use crate::runtime::boundary::{Boundary, Lower};
use crate::runtime::chain::{Chain, Mode};
use crate::runtime::comm::ports;
use crate::runtime::exec::error::Cause;
use crate::runtime::exec::observer::RunStart;
use crate::runtime::exec::run::{Job, Outcome};
use crate::runtime::parcel::Parcel;
use crate::runtime::stage::Stage;

impl<C: Chain> Trainer<C> {
    /// Runs a job that cannot fail on every worker: replica by replica, stage by stage, rank by rank.
    pub(super) fn each<R: Send + 'static>(
        &mut self,
        job: impl Fn(&mut Stage<C>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, TrainError> {
        self.each_of(self.grid.workers(), job)
    }

    /// Runs it on the workers of the first replica, whose parameters and gradients are every one's.
    pub(super) fn first_replica<R: Send + 'static>(
        &mut self,
        job: impl Fn(&mut Stage<C>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, TrainError> {
        self.each_of(self.grid.pipeline(), job)
    }

    fn each_of<R: Send + 'static>(
        &mut self,
        workers: usize,
        job: impl Fn(&mut Stage<C>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, TrainError> {
        let jobs = (0..workers)
            .map(|_| {
                let job = job.clone();
                move |stage: &mut Stage<C>| Ok::<R, Cause>(job(stage))
            })
            .collect();
        Ok(self.crew.run(jobs)?)
    }

    /// The micro-batches of each replica. In training all have as many: they run one schedule.
    pub(super) fn deal(
        &self,
        micro_batches: usize,
        mode: Mode,
    ) -> Result<Vec<Range<usize>>, TrainError> {
        let replicas = self.grid.replicas;
        if mode == Mode::Training && !micro_batches.is_multiple_of(replicas) {
            return Err(TrainError::Replicas {
                micro_batches,
                replicas,
            });
        }
        Ok(replicas::deal(micro_batches, replicas))
    }

    /// Weighs the micro-batches and runs them; returns what each worker yields and each
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

    /// Runs the micro-batches on all replicas.
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
        let training = mode == Mode::Training;
        let shares = self.deal(micro_batches, mode)?;
        let mut schedules = Vec::with_capacity(shares.len());
        for share in &shares {
            // In an evaluation of few micro-batches some replicas have nothing to do.
            schedules.push(match share.len() {
                0 => None,
                count => Some(self.schedule(count, training)?),
            });
        }
        let grid = self.grid;
        let stages = grid.stages;
        let stop = self.crew.stop_signal();
        // Rank r of a stage talks to rank r of its neighbours in the same replica.
        let mut ports: Vec<_> = (0..grid.replicas * grid.ranks)
            .map(|_| ports::connect(stages, self.mailbox_capacity, self.link, stop).into_iter())
            .collect();
        if let Some(observer) = &self.observer {
            observer.run(&RunStart {
                step: self.step,
                mode,
                replicas: grid.replicas,
                stages,
                ranks: grid.ranks,
                micro_batches,
            });
        }
        let groups = std::mem::take(&mut self.groups).into_iter();
        let jobs = groups
            .zip(grid.seats())
            .filter_map(|(groups, (worker, seat))| {
                let (replica, stage) = (seat.replica.0, seat.stage.0);
                let schedule = schedules[replica].as_ref();
                let actions = schedule.map_or(Vec::new(), |all| all.stages[stage].clone());
                let share = &shares[replica];
                let job = Job {
                    seat,
                    step: self.step,
                    mode,
                    first: share.start,
                    cool_down: overlap::cool_down(&self.schedule, stages, (stage, &actions)),
                    actions,
                    ports: ports[replica * grid.ranks + seat.rank.0].next()?,
                    groups,
                    inputs: match stage {
                        0 => own(&inputs, share),
                        _ => BTreeMap::new(),
                    },
                    targets: match stage + 1 == stages {
                        true => own(&targets, share),
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
        let groups = outcomes.iter_mut();
        let groups = groups.map(|outcome| std::mem::take(&mut outcome.groups));
        self.groups = groups.collect();
        Ok(outcomes)
    }
}

/// A replica's part of what there is for each micro-batch, counted from its first.
fn own<T: Clone>(
    all: &BTreeMap<MicroBatchId, T>,
    share: &Range<usize>,
) -> BTreeMap<MicroBatchId, T> {
    let own = all.range(MicroBatchId(share.start)..MicroBatchId(share.end));
    own.map(|(id, one)| (MicroBatchId(id.0 - share.start), one.clone()))
        .collect()
}

/// The losses that the last stages' ranks read, in micro-batch order: each rank has a share.
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
