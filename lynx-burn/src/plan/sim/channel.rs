//! One direction between two neighbours: a mailbox and a wire.
//!
//! A send takes a *slot* of the mailbox; the message then waits for the wire,
//! occupies it, and arrives a latency later. With mailboxes that hold messages
//! there is a slot for each at first, and every receive that ends grants one.
//! With capacity 0 there is none, and a receive grants one when it *begins*:
//! so a send and its receive meet. Both ends work off the channel in order, so
//! all instants follow from those before, whichever end is looked at first.

use std::collections::VecDeque;

use super::costs::{ChannelCosts, ONE, scale};
use super::timeline::{Awaited, Cargo};
use crate::ids::StageId;
use crate::plan::schedule::{Action, Shape, Unit};

/// The instants of one message, by the name that its sender gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mail {
    pub(super) unit: Unit,
    /// It begins to occupy the wire.
    pub(super) begin: u64,
    /// It has left the sender.
    pub(super) left: u64,
    /// It can be read.
    pub(super) arrive: u64,
}

pub(super) struct Channel {
    costs: ChannelCosts,
    /// How long an ordinary message occupies the wire.
    ordinary: u64,
    capacity: usize,
    /// Slots that nobody ever held.
    unused: usize,
    /// When each slot that can be had again was granted.
    granted: VecDeque<u64>,
    /// Whether granting makes a difference.
    bounded: bool,
    /// Sent and not yet received.
    mail: VecDeque<Mail>,
    /// When the wire is free.
    free: u64,
    /// Whether the receive under way has granted its slot.
    met: bool,
    /// Messages received.
    received: usize,
    /// How long the wire was occupied.
    busy: u64,
}

impl Channel {
    pub(super) fn new(costs: ChannelCosts, capacity: usize, messages: usize) -> Self {
        Self {
            costs,
            ordinary: costs.wire(costs.bytes.0),
            capacity,
            unused: capacity,
            granted: VecDeque::new(),
            bounded: capacity < messages,
            mail: VecDeque::new(),
            free: 0,
            met: false,
            received: 0,
            busy: 0,
        }
    }

    /// Sends a message from a stage that stands before it since `now`; `None`
    /// while it is not known when there will be room. Returns when there was
    /// room, with the message.
    pub(super) fn send(&mut self, unit: Unit, size: u32, now: u64) -> Option<(u64, Mail)> {
        let slot = if self.unused > 0 {
            self.unused -= 1;
            0
        } else {
            self.granted.pop_front()?
        };
        let accepted = now.max(slot);
        let wire = match size {
            ONE => self.ordinary,
            size => self.costs.wire(scale(self.costs.bytes.0, size)),
        };
        let begin = accepted.max(self.free);
        let left = begin + wire;
        let mail = Mail {
            unit,
            begin,
            left,
            arrive: left + self.costs.latency.0,
        };
        self.free = left;
        self.busy += wire;
        self.mail.push_back(mail);
        Some((accepted, mail))
    }

    /// Tells that a stage stands before a receive since `now`. Returns whether
    /// that made room for a send.
    pub(super) fn meet(&mut self, now: u64) -> bool {
        let news = self.capacity == 0 && !self.met;
        if news {
            self.met = true;
            self.granted.push_back(now);
        }
        news
    }

    /// The next message to be received, if it is known when it was sent.
    pub(super) fn next(&self) -> Option<Mail> {
        self.mail.front().copied()
    }

    /// Takes that message out. Returns whether that made room for a send.
    pub(super) fn take(&mut self, now: u64) -> bool {
        self.mail.pop_front();
        self.met = false;
        self.received += 1;
        let news = self.capacity > 0 && self.bounded;
        if news {
            self.granted.push_back(now);
        }
        news
    }

    /// How many messages were received.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// How long the wire was occupied.
    pub(super) fn busy(&self) -> u64 {
        self.busy
    }
}

/// How many channels a pipeline has.
pub(super) fn channel_count(shape: Shape) -> usize {
    shape.links().saturating_mul(2)
}

/// The number of the channel that a transfer of this stage uses: two for each
/// link, boundaries first. Link `s` leads from stage `s` to the next, around the
/// ring.
pub(super) fn channel(stage: StageId, action: Action, shape: Shape) -> usize {
    let cargo = match action.is_forward() {
        true => Cargo::Boundary,
        false => Cargo::Gradient,
    };
    let leaves_upwards = matches!(action, Action::SendBackward(_) | Action::RecvForward(_));
    let link = match (leaves_upwards, stage.0) {
        (true, 0) => shape.stages.saturating_sub(1),
        (true, stage) => stage - 1,
        (false, stage) => stage,
    };
    number(link, cargo)
}

fn number(link: usize, cargo: Cargo) -> usize {
    2 * link + usize::from(cargo == Cargo::Gradient)
}

/// The stages that a channel leads from and to, and what it carries.
pub(super) fn channel_ends(channel: usize, stages: usize) -> (StageId, StageId, Cargo) {
    let link = channel / 2;
    let after = if link + 1 < stages { link + 1 } else { 0 };
    match channel % 2 {
        0 => (StageId(link), StageId(after), Cargo::Boundary),
        _ => (StageId(after), StageId(link), Cargo::Gradient),
    }
}

/// The number of the channel with these ends.
pub(super) fn channel_between(from: StageId, to: StageId, cargo: Cargo) -> usize {
    match cargo {
        Cargo::Boundary => number(from.0, cargo),
        Cargo::Gradient => number(to.0, cargo),
    }
}

/// What a stage waits for when it waits for a message on this channel.
pub(super) fn message_on(channel: usize, stages: usize) -> Awaited {
    let (from, to, cargo) = channel_ends(channel, stages);
    Awaited::Message { from, to, cargo }
}
