//! Messages: when they are let in, leave and arrive.

use super::super::super::window::Window;
use super::{Name, World};
use crate::plan::schedule::Action;

/// A wire, by the stage whose boundaries go over it and whether they do: their
/// gradients come back over another.
pub(super) type WireName = (usize, bool);

/// One message: whose boundary or gradient of a boundary, by the stage that made
/// the boundary, and how long until it has left and has arrived.
pub(super) struct Letter {
    pub(super) boundary_of: Name,
    pub(super) on_wire: bool,
    pub(super) left_in: u64,
    pub(super) arrive_in: u64,
}

#[derive(Default)]
pub(super) struct Wire {
    pub(super) letters: Vec<Letter>,
    pub(super) received: usize,
}

impl World<'_> {
    /// The wire of a transfer, and the boundary that it is about.
    pub(super) fn wire(&self, s: usize, action: Action) -> (WireName, Name) {
        let (mb, chunk) = super::name(action);
        let forward = action.is_forward();
        match action {
            Action::SendForward(_) | Action::RecvBackward(_) => ((s, forward), (mb, chunk)),
            // Made by the stage before, or by the last one on the chunk before.
            _ if s > 0 => ((s - 1, forward), (mb, chunk)),
            _ => ((self.stages.len() - 1, forward), (mb, chunk - 1)),
        }
    }

    pub(super) fn settle_send(&mut self, s: usize, action: Action, now: u64) -> bool {
        let (name, boundary_of) = self.wire(s, action);
        let accepted = self.stages[s].leaving;
        let Some(index) = accepted else {
            let reads_it = |a: Action| a.is_transfer() && !a.is_send();
            // Without mailboxes, a receive from this wire must be next.
            let meets = (0..self.stages.len()).filter_map(|o| Some((o, self.head(o)?)));
            let meets = meets.filter(|(_, a)| reads_it(*a));
            let meets = meets.map(|(o, a)| self.wire(o, a).0).any(|w| w == name);
            let bytes = self.wire_time(name, boundary_of.0);
            let wire = self.wires.entry(name).or_default();
            let inside = wire.letters.len() - wire.received;
            let room = match self.costs.mailbox_capacity {
                0 => meets && inside == 0,
                capacity => inside < capacity,
            };
            if !room {
                return false;
            }
            let (left_in, latency) = bytes;
            wire.letters.push(Letter {
                boundary_of,
                on_wire: false,
                left_in,
                arrive_in: left_in + latency,
            });
            self.stages[s].leaving = Some(wire.letters.len() - 1);
            self.close_window(s);
            return true;
        };
        let letter = &self.wires[&name].letters[index];
        let left = letter.on_wire && letter.left_in == 0;
        if self.costs.blocking_sends && !left {
            return false;
        }
        self.stages[s].leaving = None;
        self.pass_on(s, now)
    }

    fn wire_time(&self, (link, forward): WireName, mb: usize) -> (u64, u64) {
        let link = &self.costs.links[link];
        let one = if forward {
            &link.forward
        } else {
            &link.backward
        };
        let bytes = self.size(one.bytes.0, mb);
        let time = one.bytes_per_second.map_or(0, |b| {
            let b = b.get();
            let nanos = bytes * 1_000_000_000;
            nanos / b + u64::from(!nanos.is_multiple_of(b))
        });
        (time, one.latency.0)
    }

    pub(super) fn kind_of_wait(&self, s: usize, action: Action) -> Window {
        if action.is_send() {
            // A send that was accepted and stands still waits to leave.
            return match self.stages[s].leaving {
                Some(_) => Window::Send,
                None => Window::Bubble,
            };
        }
        let wire = self.wires.get(&self.wire(s, action).0);
        let letter = wire.and_then(|wire| wire.letters.get(wire.received));
        match letter.is_some_and(|letter| letter.on_wire) {
            true => Window::Recv,
            false => Window::Bubble,
        }
    }
}
