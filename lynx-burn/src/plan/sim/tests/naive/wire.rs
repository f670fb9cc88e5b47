//! Messages: when they are let in, leave and arrive.

use super::super::super::window::Window;
use super::World;
use crate::plan::schedule::Action;

/// One message: whose, and how long until it has left and has arrived.
pub(super) struct Letter {
    pub(super) mb: usize,
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
    pub(super) fn settle_send(&mut self, s: usize, peer: usize, mb: usize, now: u64) -> bool {
        let accepted = self.stages[s].leaving;
        let Some(index) = accepted else {
            let at_the_other_end = self.head(peer);
            let bytes = self.wire_time(s, peer, mb);
            let wire = self.wires.entry((s, peer)).or_default();
            let inside = wire.letters.len() - wire.received;
            // Without mailboxes, the receive of exactly this message must be next.
            let meets = at_the_other_end
                .is_some_and(|a| !a.is_compute() && !a.is_send() && a.is_forward() == (s < peer));
            let room = match self.costs.mailbox_capacity {
                0 => meets && inside == 0,
                capacity => inside < capacity,
            };
            if !room {
                return false;
            }
            let (left_in, latency) = bytes;
            wire.letters.push(Letter {
                mb,
                on_wire: false,
                left_in,
                arrive_in: left_in + latency,
            });
            self.stages[s].leaving = Some(wire.letters.len() - 1);
            self.close_window(s);
            return true;
        };
        let letter = &self.wires[&(s, peer)].letters[index];
        let left = letter.on_wire && letter.left_in == 0;
        if self.costs.blocking_sends && !left {
            return false;
        }
        self.stages[s].leaving = None;
        self.pass_on(s, now)
    }

    fn wire_time(&self, s: usize, peer: usize, mb: usize) -> (u64, u64) {
        let link = &self.costs.links[s.min(peer)];
        let one = if s < peer {
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
        let comes = match action {
            Action::RecvForward(_) => (s - 1, s),
            Action::RecvBackward(_) => (s + 1, s),
            // A send that was accepted and stands still waits to leave.
            _ if self.stages[s].leaving.is_some() => return Window::Send,
            _ => return Window::Bubble,
        };
        let wire = self.wires.get(&comes);
        let letter = wire.and_then(|wire| wire.letters.get(wire.received));
        match letter.is_some_and(|letter| letter.on_wire) {
            true => Window::Recv,
            false => Window::Bubble,
        }
    }
}
