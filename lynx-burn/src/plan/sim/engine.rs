//! The sweep that times every action.
//!
//! Each stage works off its list as far as what is known allows; when it meets
//! a message or a free slot whose instant is not known yet, it is put aside
//! until its neighbour has gone on. No queue of events is needed for that: every
//! channel has one writer, one reader and a fixed order, so the instant of an
//! action follows from instants before it and not from when it is looked at
//! (the same argument as for deadlocks, `schedule/deadlock.rs`). A stage is
//! looked at again only after news on one of its channels, so the work is
//! proportional to the number of actions.

use std::collections::VecDeque;

use super::channel::{Channel, Mail, channel, channel_ends, message_on};
use super::check::check;
use super::costs::{Costs, LinkCosts};
use super::error::SimError;
use super::order::Done;
use super::recorder::Recorder;
use super::report::{ChannelReport, Report};
use super::timeline::Awaited;
use super::window::Window;
use super::worker::Worker;
use crate::ids::StageId;
use crate::plan::schedule::{Action, Schedule, ScheduleError, Shape, Unit, Waiting};
use crate::units::Nanos;

/// Times a step and tells the recorder all about it.
pub(super) fn run<R: Recorder>(
    schedule: &Schedule,
    costs: &Costs,
    recorder: &mut R,
) -> Result<Report, SimError> {
    check(schedule, costs)?;
    let mut engine = Engine::new(schedule, costs, recorder);
    engine.sweep(recorder)?;
    engine.finish()
}

struct Engine<'a> {
    shape: Shape,
    costs: &'a Costs,
    workers: Vec<Worker<'a>>,
    channels: Vec<Channel>,
    /// Stages worth looking at, each at most once.
    ready: VecDeque<usize>,
    is_ready: Vec<bool>,
}

impl<'a> Engine<'a> {
    fn new<R: Recorder>(schedule: &'a Schedule, costs: &'a Costs, recorder: &mut R) -> Self {
        let stages = schedule.stages.len();
        let micro_batches = schedule.micro_batches;
        let shape = schedule.shape();
        let workers = schedule.stages.iter().enumerate();
        let workers = workers.map(|(stage, actions)| {
            let stage = StageId(stage);
            let done = Done::new(stage, shape, micro_batches);
            Worker::new(stage, (actions, shape), costs, done, recorder)
        });
        let of_channel = |link: &LinkCosts| [link.forward, link.backward];
        let channels = costs.links.iter().flat_map(of_channel);
        let capacity = costs.mailbox_capacity;
        let messages = micro_batches.saturating_mul(shape.chunks);
        Self {
            shape,
            costs,
            workers: workers.collect(),
            channels: channels
                .map(|costs| Channel::new(costs, capacity, messages))
                .collect(),
            ready: (0..stages).collect(),
            is_ready: vec![true; stages],
        }
    }

    fn sweep<R: Recorder>(&mut self, recorder: &mut R) -> Result<(), SimError> {
        while let Some(stage) = self.ready.pop_front() {
            self.is_ready[stage] = false;
            while self.step(StageId(stage), recorder)? {}
        }
        Ok(())
    }

    /// Lets `stage` do its next action, if the instant of its end is known.
    fn step<R: Recorder>(&mut self, stage: StageId, recorder: &mut R) -> Result<bool, SimError> {
        let worker = &mut self.workers[stage.0];
        let Some(action) = worker.action() else {
            return Ok(false);
        };
        let other = action.other_end(stage, self.shape);
        worker.done.allow(action, other.is_some())?;
        let went_on = match (action, other) {
            (Action::Forward(unit), _) => {
                worker.forward(unit, recorder);
                true
            }
            (Action::Backward(_) | Action::BackwardInput(_) | Action::BackwardWeight(_), _) => {
                worker.backward(action, recorder)?;
                true
            }
            (Action::ReduceGradients(unit), _) => {
                worker.reduce(unit, recorder);
                true
            }
            (Action::SendForward(_) | Action::SendBackward(_), Some((peer, _))) => {
                self.send(stage, peer, action, recorder)
            }
            (Action::RecvForward(_) | Action::RecvBackward(_), Some((peer, sent))) => {
                self.receive(stage, (peer, sent), action, recorder)?
            }
            // Without a neighbour it was not allowed.
            (_, None) => false,
        };
        if went_on {
            self.workers[stage.0].advance(action);
        }
        Ok(went_on)
    }

    fn send<R: Recorder>(
        &mut self,
        stage: StageId,
        peer: StageId,
        action: Action,
        recorder: &mut R,
    ) -> bool {
        let worker = &mut self.workers[stage.0];
        let number = channel(stage, action, self.shape);
        let unit = action.unit();
        let size = self.costs.size(unit.micro_batch.0);
        let Some((accepted, mail)) = self.channels[number].send(unit, size, worker.now) else {
            return false;
        };
        recorder.message(number, &mail);
        let room = (Window::Bubble, Awaited::Stage(peer));
        worker.wait(accepted, room, unit, recorder);
        if self.costs.blocking_sends {
            let leaves = (Window::Send, message_on(number, self.shape.stages));
            worker.wait(mail.left, leaves, unit, recorder);
        }
        self.wake(peer);
        true
    }

    /// Receives what `peer` names `sent`.
    fn receive<R: Recorder>(
        &mut self,
        stage: StageId,
        (peer, sent): (StageId, Action),
        action: Action,
        recorder: &mut R,
    ) -> Result<bool, SimError> {
        let worker = &mut self.workers[stage.0];
        let number = channel(stage, action, self.shape);
        let channel = &mut self.channels[number];
        let mut room = channel.meet(worker.now);
        let next = channel.next();
        if let Some(mail) = next {
            let unit = action.unit();
            if mail.unit != sent.unit() {
                let error = ScheduleError::ChannelOrder {
                    from: peer,
                    to: stage,
                    position: channel.received(),
                    sent: send_of(action, mail.unit),
                    received: action,
                };
                return Err(error.into());
            }
            // Until it is on its way nothing moves, as far as this stage knows.
            let message = message_on(number, self.shape.stages);
            worker.wait(mail.begin, (Window::Bubble, message), unit, recorder);
            worker.wait(mail.arrive, (Window::Recv, message), unit, recorder);
            room |= channel.take(worker.now);
        }
        if room {
            self.wake(peer);
        }
        Ok(next.is_some())
    }

    /// There is news for `stage`.
    fn wake(&mut self, stage: StageId) {
        if !std::mem::replace(&mut self.is_ready[stage.0], true) {
            self.ready.push_back(stage.0);
        }
    }

    /// The figures, if all lists are at their end and nothing is left over.
    fn finish(&self) -> Result<Report, SimError> {
        let stages = (0..self.workers.len()).map(StageId);
        let waiting: Vec<_> = stages.filter_map(|stage| self.waiting(stage)).collect();
        if !waiting.is_empty() {
            let capacity = self.costs.mailbox_capacity;
            return Err(ScheduleError::Deadlock { capacity, waiting }.into());
        }
        let training = self.workers.iter().any(|worker| worker.done.trains());
        let reduces = self.workers.iter().any(|worker| worker.done.reduces());
        for worker in &self.workers {
            worker.done.complete(training, reduces)?;
        }
        // What was sent was received, since each forward and backward needs it.
        let channels = self.channels.iter().enumerate().map(|(number, channel)| {
            let (from, to, cargo) = channel_ends(number, self.shape.stages);
            let busy = Nanos(channel.busy());
            ChannelReport {
                from,
                to,
                cargo,
                busy,
            }
        });
        let stages: Vec<_> = self.workers.iter().map(Worker::report).collect();
        Ok(Report {
            step: stages.iter().map(|s| s.end).max().unwrap_or_default(),
            stages,
            channels: channels.collect(),
        })
    }

    /// What `stage` waits for, once nobody goes on.
    fn waiting(&self, stage: StageId) -> Option<Waiting> {
        let action = self.workers[stage.0].action()?;
        let (peer, partner) = action.other_end(stage, self.shape)?;
        let full = action.is_send() && self.costs.mailbox_capacity > 0;
        // A full mailbox gets room when its oldest message is taken.
        let number = channel(stage, action, self.shape);
        let oldest = full.then(|| self.channels[number].next()).flatten();
        let received = |mail: Mail| send_of(action, mail.unit).partner(stage, self.shape);
        let awaits = oldest.and_then(received).unwrap_or(partner);
        Some(Waiting {
            stage,
            action,
            peer,
            awaits,
        })
    }
}

/// The send of another unit on the channel of this transfer.
fn send_of(transfer: Action, unit: Unit) -> Action {
    match transfer.is_forward() {
        true => Action::SendForward(unit),
        false => Action::SendBackward(unit),
    }
}
