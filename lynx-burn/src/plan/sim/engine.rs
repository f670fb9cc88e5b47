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
use crate::ids::{MicroBatchId, StageId};
use crate::plan::schedule::{Action, Schedule, ScheduleError, Waiting};
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
        let workers = schedule.stages.iter().zip(&costs.stages).enumerate();
        let workers = workers.map(|(stage, (actions, own))| {
            let stage = StageId(stage);
            let done = Done::new(stage, stages, micro_batches);
            Worker::new(stage, actions, costs, own, done, recorder)
        });
        let of_channel = |link: &LinkCosts| [link.forward, link.backward];
        let channels = costs.links.iter().flat_map(of_channel);
        let capacity = costs.mailbox_capacity;
        Self {
            costs,
            workers: workers.collect(),
            channels: channels
                .map(|costs| Channel::new(costs, capacity, micro_batches))
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
        worker.done.allow(action)?;
        let went_on = match (action, action.peer(stage, self.costs.stages.len())) {
            (Action::Forward(mb), _) => {
                worker.forward(mb, recorder);
                true
            }
            (Action::Backward(mb), _) => {
                worker.backward(mb, recorder);
                true
            }
            (Action::SendForward(mb) | Action::SendBackward(mb), Some(peer)) => {
                self.send(stage, peer, mb, recorder)
            }
            (Action::RecvForward(_) | Action::RecvBackward(_), Some(peer)) => {
                self.receive(stage, peer, action, recorder)?
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
        mb: MicroBatchId,
        recorder: &mut R,
    ) -> bool {
        let worker = &mut self.workers[stage.0];
        let number = channel(stage, peer);
        let size = self.costs.size(mb.0);
        let Some((accepted, mail)) = self.channels[number].send(mb, size, worker.now) else {
            return false;
        };
        recorder.message(number, &mail);
        let room = (Window::Bubble, Awaited::Stage(peer));
        worker.wait(accepted, room, mb, recorder);
        if self.costs.blocking_sends {
            let leaves = (Window::Send, message_on(number));
            worker.wait(mail.left, leaves, mb, recorder);
        }
        self.wake(peer);
        true
    }

    fn receive<R: Recorder>(
        &mut self,
        stage: StageId,
        peer: StageId,
        action: Action,
        recorder: &mut R,
    ) -> Result<bool, SimError> {
        let worker = &mut self.workers[stage.0];
        let number = channel(peer, stage);
        let channel = &mut self.channels[number];
        let mut room = channel.meet(worker.now);
        let next = channel.next();
        if let Some(mail) = next {
            let mb = action.micro_batch();
            if mail.micro_batch != mb {
                return Err(disagreement(peer, stage, action, &mail, channel).into());
            }
            // Until it is on its way nothing moves, as far as this stage knows.
            let bubble = (Window::Bubble, message_on(number));
            worker.wait(mail.begin, bubble, mb, recorder);
            let moves = (Window::Recv, message_on(number));
            worker.wait(mail.arrive, moves, mb, recorder);
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
        for worker in &self.workers {
            worker.done.complete(training)?;
        }
        // What was sent was received, since each forward and backward needs it.
        let channels = self.channels.iter().enumerate().map(|(number, channel)| {
            let (from, to) = channel_ends(number);
            let busy = Nanos(channel.busy());
            ChannelReport { from, to, busy }
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
        let peer = action.peer(stage, self.workers.len())?;
        let awaits = action.partner()?;
        let full = action.is_send() && self.costs.mailbox_capacity > 0;
        // A full mailbox gets room when its oldest message is taken.
        let oldest = full.then(|| self.channels[channel(stage, peer)].next());
        let awaits = match oldest.flatten() {
            Some(mail) => received(stage, peer, mail.micro_batch),
            None => awaits,
        };
        Some(Waiting {
            stage,
            action,
            peer,
            awaits,
        })
    }
}

/// How a message from one stage is received by the other.
fn received(from: StageId, to: StageId, mb: MicroBatchId) -> Action {
    match from < to {
        true => Action::RecvForward(mb),
        false => Action::RecvBackward(mb),
    }
}

fn disagreement(
    from: StageId,
    to: StageId,
    action: Action,
    mail: &Mail,
    channel: &Channel,
) -> ScheduleError {
    let sent = received(from, to, mail.micro_batch);
    ScheduleError::ChannelOrder {
        from,
        to,
        position: channel.received(),
        sent: sent.partner().unwrap_or(sent),
        received: action,
    }
}
