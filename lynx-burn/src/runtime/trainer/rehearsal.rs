//! What a step will hold, tried out before it is taken.
//!
//! A plan's bytes are sums over segments, and a sum cannot know what neighbours on a tape share: it
//! takes the most that a segment can add. So a plan says what is enough. A rehearsal says what it
//! will be: each worker runs its part of a step alone, on its own thread, with neighbours that come
//! later than anything it could do meanwhile ([`patient`]), so that all the recompute that may be
//! done early is. What a worker holds depends on the order of its own actions only, so where the
//! real waits are long enough for what is planned in them, the ledger of a real step has the same
//! peak to the byte; where they are not, less is there at one time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::dispatch::from_outside;
use super::sample::Sample;
use super::{MicroBatch, TrainError, Trainer, overlap};
use crate::ids::{MicroBatchId, RankId, StageId};
use crate::plan::schedule::Action;
use crate::runtime::boundary::{Boundary, Lower};
use crate::runtime::chain::{Chain, Mode};
use crate::runtime::comm::collective::{Collective, Groups};
use crate::runtime::comm::mailbox::StopSignal;
use crate::runtime::comm::patient::{Copies, Handed, Lonely};
use crate::runtime::comm::ports::Ports;
use crate::runtime::exec::error::Cause;
use crate::runtime::exec::grid::{Grid, Seat};
use crate::runtime::exec::position::Position;
use crate::runtime::exec::run::{Cotangents, Job};
use crate::runtime::memory::{is_tracking, live_bytes, peak_bytes, reset_peak};
use crate::runtime::parcel::Parcel;
use crate::runtime::stage::Stage;
use crate::runtime::streams::Fenced;
use crate::units::Bytes;

/// What a step will hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// Stage by stage, rank by rank, of one replica: all hold alike.
    pub workers: Vec<Rehearsed>,
}

/// What one worker's part of a step held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    /// Which stage.
    pub stage: StageId,
    /// Which of its ranks.
    pub rank: RankId,
    /// The most bytes of boundaries and tapes at one time, as in
    /// [`StageReport::retained_peak`](crate::StageReport::retained_peak).
    pub retained_peak: Bytes,
    /// The most bytes above those that were there before the step: with gradients, what is on its
    /// way, what is needed for a moment, and whatever else the program allocates meanwhile. Nothing
    /// without [`TrackingAllocator`](crate::memory::TrackingAllocator).
    pub allocated_peak: Option<Bytes>,
}

impl Rehearsal {
    /// What a rank of each stage retains at most; of several ranks, the one that holds most.
    pub fn retained(&self) -> Vec<Bytes> {
        let stages = self.workers.chunk_by(|a, b| a.stage == b.stage);
        let most = stages.map(|ranks| ranks.iter().map(|rank| rank.retained_peak).max());
        most.map(Option::unwrap_or_default).collect()
    }

    /// What all workers of a replica retain at most, together: a step's
    /// [`BackwardReport::retained_peak`](crate::BackwardReport::retained_peak) is this times the replicas.
    pub fn retained_peak(&self) -> Bytes {
        let all = self.workers.iter();
        Bytes(all.map(|worker| worker.retained_peak.0).sum())
    }

    /// All these workers' peaks together: what the process holds if they coincide, and the most
    /// otherwise.
    pub fn allocated_peak(&self) -> Option<Bytes> {
        let peaks = self.workers.iter().map(|worker| worker.allocated_peak);
        let sum: Option<u64> = peaks.map(|peak| Some(peak?.0)).sum();
        sum.filter(|_| !self.workers.is_empty()).map(Bytes)
    }
}

impl<C: Chain> Trainer<C> {
    /// What a step of so many micro-batches like this one will hold.
    ///
    /// Every worker of the first replica in turn runs its part of such a step twice, the first time to
    /// fill what a thread allocates once and for all. Nothing is learnt, and gradients that were not
    /// applied yet stay. The [allocator's peak](crate::memory::peak_bytes) begins anew.
    ///
    /// # Errors
    ///
    /// As [`backward`](Self::backward).
    pub fn rehearse(
        &mut self,
        micro_batch: MicroBatch<C>,
        micro_batches: usize,
    ) -> Result<Rehearsal, TrainError> {
        if self.crew.is_over() {
            return Err(TrainError::Ended);
        }
        let shares = self.deal(micro_batches, Mode::Training)?;
        let schedule = self.schedule(shares[0].len(), true)?;
        let (stages, ranks) = (self.grid.stages, self.grid.ranks);
        let target = micro_batch.target.map_tensors(&mut Lower);
        let first = Sample::of_nobody(from_outside(micro_batch.input));
        let mut samples = vec![first; ranks];
        let mut workers = Vec::with_capacity(self.grid.pipeline());
        for (stage, actions) in schedule.stages.iter().enumerate() {
            for (rank, sample) in samples.iter_mut().enumerate() {
                let worker = stage * ranks + rank;
                let part = Part {
                    seat: self.grid.seat(worker),
                    is_first: stage == 0,
                    grid: self.grid,
                    step: self.step,
                    cool_down: overlap::cool_down(&self.schedule, stages, (stage, actions)),
                    actions: actions.clone(),
                    input: sample.clone(),
                    target: (stage + 1 == stages).then(|| target.clone()),
                    output: Output::default(),
                    position: self.crew.position(worker),
                    stop: self.crew.stop_signal().clone(),
                };
                let output = part.output.clone();
                workers.push(self.alone(worker, part)?);
                if let Some(output) = locked(&output).take() {
                    *sample = output;
                }
            }
        }
        Ok(Rehearsal { workers })
    }

    /// Has one worker run while the others do nothing.
    fn alone(&mut self, worker: usize, part: Part<C>) -> Result<Rehearsed, TrainError> {
        let mut part = Some(part);
        let jobs = (0..self.grid.pipeline())
            .map(|index| {
                let own = part.take_if(|_| index == worker);
                move |stage: &mut Stage<C>| own.map(|part| part.twice(stage)).transpose()
            })
            .collect();
        let found = self.crew.run(jobs)?.into_iter().flatten().next();
        found.ok_or(TrainError::Ended)
    }
}

/// Where a sample of what a stage sends will be.
type Output<B> = Arc<Mutex<Option<Sample<B>>>>;

/// One worker's part.
struct Part<C: Chain> {
    seat: Seat,
    is_first: bool,
    /// Who else there is.
    grid: Grid,
    step: u64,
    cool_down: usize,
    actions: Vec<Action>,
    /// Like those that the stage will get.
    input: Sample<C::Boundary>,
    /// On the last stage.
    target: Option<C::Target>,
    /// Where one that the stage makes will be.
    output: Output<C::Boundary>,
    position: Arc<Position>,
    stop: StopSignal,
}

impl<C: Chain> Part<C> {
    fn twice(self, stage: &mut Stage<C>) -> Result<Rehearsed, Cause> {
        let kept = stage.set_aside();
        self.job().run(stage)?;
        stage.discard();
        let before = live_bytes();
        reset_peak();
        let outcome = self.job().run(stage)?;
        let allocated = peak_bytes().saturating_sub(before);
        stage.put_back(kept);
        Ok(Rehearsed {
            stage: self.seat.stage,
            rank: self.seat.rank,
            retained_peak: outcome.report.retained_peak,
            allocated_peak: is_tracking().then_some(Bytes(allocated)),
        })
    }

    fn job(&self) -> Job<C> {
        let forwards = self.received(|action| matches!(action, Action::Forward(_)));
        let count = forwards.len();
        let group = || Box::new(Lonely::new(&self.stop)) as Box<dyn Collective>;
        let own = |&id: &MicroBatchId| (id, self.input.copy());
        let share = 1.0 / count.max(1) as f64;
        let target = |target: &C::Target| {
            let all = forwards.iter();
            all.map(|&id| (id, (target.clone(), share))).collect()
        };
        Job {
            seat: self.seat,
            step: self.step,
            mode: Mode::Training,
            actions: self.actions.clone(),
            cool_down: self.cool_down,
            ports: self.ports(),
            first: 0,
            groups: Groups {
                ranks: (self.grid.ranks > 1).then(group),
                replicas: (self.grid.replicas > 1).then(group),
            },
            inputs: match self.is_first {
                true => forwards.iter().map(own).collect(),
                false => BTreeMap::new(),
            },
            targets: self.target.as_ref().map(target).unwrap_or_default(),
            position: self.position.clone(),
            observer: None,
        }
    }

    /// Ends of links on both sides: the schedule uses those that the stage has.
    fn ports(&self) -> Ports<Fenced<Parcel<C::Boundary>>, Fenced<Cotangents>> {
        let boundaries = self.received(|action| matches!(action, Action::RecvForward(_)));
        let cotangents = self.received(|action| matches!(action, Action::RecvBackward(_)));
        // What the neighbour has sent and keeps, until it gets the gradient.
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (input, keeping) = (self.input.clone(), kept.clone());
        let copy = move || {
            let copy = input.copy();
            locked(&keeping).push_back(input.kept_of(&copy));
            Fenced::by_oneself(copy)
        };
        let output = self.output.clone();
        let sent = move |message: Fenced<Parcel<C::Boundary>>| {
            locked(&output).get_or_insert_with(|| Sample::sent(message.open()));
        };
        let output = self.output.clone();
        let gradients = move || {
            let output = locked(&output);
            Fenced::by_oneself(output.as_ref().map(Sample::ones).unwrap_or_default())
        };
        let sent_back = move |gradients: Fenced<Cotangents>| {
            drop(gradients);
            locked(&kept).pop_front();
        };
        Ports {
            send_forward: Some(Box::new(Handed(sent))),
            receive_forward: Some(Box::new(Copies::new(boundaries, copy))),
            send_backward: Some(Box::new(Handed(sent_back))),
            receive_backward: Some(Box::new(Copies::new(cotangents, gradients))),
        }
    }

    /// The micro-batches of the actions of a kind, in order.
    fn received(&self, kind: impl Fn(&Action) -> bool) -> Vec<MicroBatchId> {
        let actions = self.actions.iter().filter(|action| kind(action));
        actions.map(|action| action.micro_batch()).collect()
    }
}

fn locked<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing of what is kept there can be half done.
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
