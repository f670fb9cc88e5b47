//! A second simulator, as plain as possible: it looks at every stage and every
//! wire at every nanosecond, and changes what can change at that instant until
//! nothing can. It shares no code with the engine but the input types.

use std::collections::{BTreeMap, VecDeque};

use super::super::costs::{Costs, Part};
use super::super::window::Window;
use crate::plan::schedule::{Action, Schedule};

/// What is compared with the engine's report, stage by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) end: u64,
    pub(super) busy: u64,
    pub(super) exposed: u64,
    pub(super) hidden: BTreeMap<Window, u64>,
    pub(super) waiting: BTreeMap<Window, u64>,
    pub(super) peak: u64,
}

#[derive(Default)]
struct Stage {
    figures: Figures,
    next: usize,
    /// Pieces of the pass under way: time left, and the part it is of.
    pieces: VecDeque<(u64, Piece)>,
    running: bool,
    forwards: Vec<usize>,
    backwards: Vec<usize>,
    /// Work left ahead of the next backward, once begun.
    ahead: Option<u64>,
    /// The window that is open: which, for how long, and what was ahead before.
    open: Option<(Window, u64, u64)>,
    /// A message is accepted, and the stage stands still until it has left.
    leaving: Option<usize>,
    bytes: u64,
}

#[derive(Clone, Copy)]
enum Piece {
    Busy,
    Exposed,
    /// A forward collective with the most it takes of the work ahead.
    Host(Window, u64),
}

/// One message: whose, and how long until it has left and has arrived.
struct Letter {
    mb: usize,
    on_wire: bool,
    left_in: u64,
    arrive_in: u64,
}

#[derive(Default)]
struct Wire {
    letters: Vec<Letter>,
    received: usize,
}

/// The figures of every stage; `None` when the stages get stuck. The schedule
/// must be sound otherwise.
pub(super) fn simulate(schedule: &Schedule, costs: &Costs) -> Option<Vec<Figures>> {
    let mut world = World::new(schedule, costs);
    let mut quiet = 0;
    for now in 0.. {
        while world.settle(now) {}
        if world.finished() {
            return Some(world.stages.into_iter().map(|s| s.figures).collect());
        }
        quiet = if world.tick() { 0 } else { quiet + 1 };
        if quiet > 2 {
            return None;
        }
    }
    None
}

struct World<'a> {
    schedule: &'a Schedule,
    costs: &'a Costs,
    stages: Vec<Stage>,
    wires: BTreeMap<(usize, usize), Wire>,
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, costs: &'a Costs) -> Self {
        let mut stages = Vec::new();
        for costs in &costs.stages {
            let mut stage = Stage::default();
            stage.grow(costs.memory.fixed.0);
            stages.push(stage);
        }
        Self {
            schedule,
            costs,
            stages,
            wires: BTreeMap::new(),
        }
    }

    fn size(&self, value: u64, mb: usize) -> u64 {
        match self.costs.sizes.get(mb) {
            Some(size) => value * u64::from(*size) / 1000,
            None => value,
        }
    }

    fn head(&self, s: usize) -> Option<Action> {
        self.schedule.stages[s].get(self.stages[s].next).copied()
    }

    fn finished(&self) -> bool {
        (0..self.stages.len()).all(|s| self.head(s).is_none())
    }

    /// Changes something at this instant; false if nothing can change.
    fn settle(&mut self, now: u64) -> bool {
        let wires: Vec<_> = self.wires.keys().copied().collect();
        for (from, to) in wires {
            let wire = self.wires.get_mut(&(from, to)).unwrap();
            let free = wire.letters.iter().all(|l| !l.on_wire || l.left_in == 0);
            let waiting = wire.letters.iter_mut().find(|l| !l.on_wire);
            if let (true, Some(letter)) = (free, waiting) {
                letter.on_wire = true;
                return true;
            }
        }
        (0..self.stages.len()).any(|s| self.settle_stage(s, now))
    }

    fn settle_stage(&mut self, s: usize, now: u64) -> bool {
        let Some(action) = self.head(s) else {
            return false;
        };
        let mb = action.micro_batch().0;
        if action.is_compute() && !self.stages[s].running {
            self.begin(s, action);
            return true;
        }
        if action.is_compute() {
            let stage = &mut self.stages[s];
            if stage.pieces.front().is_some_and(|(left, _)| *left == 0) {
                stage.pieces.pop_front();
                self.close_window(s);
                return true;
            }
            if stage.pieces.is_empty() {
                self.end(s, action);
                return self.pass_on(s, now);
            }
            return false;
        }
        let up = matches!(action, Action::SendBackward(_) | Action::RecvForward(_));
        let peer = if up { s - 1 } else { s + 1 };
        if action.is_send() {
            self.settle_send(s, peer, mb, now)
        } else {
            let wire = self.wires.entry((peer, s)).or_default();
            let letter = wire.letters.get(wire.received);
            let here = letter.is_some_and(|l| l.mb == mb && l.on_wire && l.arrive_in == 0);
            if here {
                wire.received += 1;
            }
            here && self.pass_on(s, now)
        }
    }

    fn settle_send(&mut self, s: usize, peer: usize, mb: usize, now: u64) -> bool {
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
            nanos / b + u64::from(nanos % b > 0)
        });
        (time, one.latency.0)
    }

    fn begin(&mut self, s: usize, action: Action) {
        let costs = &self.costs.stages[s];
        let mb = action.micro_batch().0;
        let of = |value| self.size(value, mb);
        let slowdown = |window| u64::from(self.costs.slowdown[window]);
        let mut pieces = VecDeque::new();
        let memory = &costs.memory;
        let mut grow = of(memory.workspace.0);
        let (mut hidden, mut left, mut exposed) = (vec![], None, 0);
        if let Action::Forward(_) = action {
            grow += of(memory.retained.0);
            for part in &costs.forward {
                pieces.push_back(match part {
                    Part::Compute { time, .. } => (of(time.0), Piece::Busy),
                    Part::Collective {
                        window,
                        time,
                        recompute,
                    } => (of(time.0), Piece::Host(*window, recompute.0)),
                    Part::Recompute { .. } => panic!("recompute in a forward"),
                });
            }
        } else {
            grow += of(memory.recomputed.0);
            left = Some(self.stages[s].ahead.unwrap_or(of(costs.ahead.work.0)));
            if self.stages[s].ahead.is_none() {
                grow += of(memory.ahead.0);
            }
            pieces.push_back((left.unwrap(), Piece::Exposed));
            for part in &costs.backward {
                match part {
                    Part::Compute { time, .. } => pieces.push_back((of(time.0), Piece::Busy)),
                    Part::Recompute { time } => pieces.push_back((of(time.0), Piece::Exposed)),
                    Part::Collective {
                        window,
                        time,
                        recompute,
                    } => {
                        let (time, work) = (of(time.0), of(recompute.0));
                        pieces.push_back((time, Piece::Busy));
                        let inside = work.min(time * 1000 / slowdown(*window));
                        hidden.push((*window, inside));
                        pieces.push_back((work - inside, Piece::Exposed));
                    }
                }
            }
        }
        exposed += pieces
            .iter()
            .filter(|(_, piece)| matches!(piece, Piece::Exposed))
            .map(|(time, _)| time)
            .sum::<u64>();
        let stage = &mut self.stages[s];
        stage.grow(grow);
        stage.figures.exposed += exposed;
        for (window, work) in hidden {
            *stage.figures.hidden.entry(window).or_default() += work;
        }
        if left.is_some() {
            stage.ahead = None;
        }
        stage.pieces = pieces;
        stage.running = true;
    }

    fn end(&mut self, s: usize, action: Action) {
        let memory = &self.costs.stages[s].memory;
        let mb = action.micro_batch().0;
        let of = |value| self.size(value, mb);
        let (workspace, retained) = (of(memory.workspace.0), of(memory.retained.0));
        let made = of(memory.recomputed.0) + of(memory.ahead.0);
        let trains = self.schedule.stages[s]
            .iter()
            .any(|a| matches!(a, Action::Backward(_)));
        let stage = &mut self.stages[s];
        stage.running = false;
        stage.bytes -= workspace;
        if let Action::Forward(_) = action {
            stage.forwards.push(mb);
            stage.bytes -= if trains { 0 } else { retained };
        } else {
            stage.backwards.push(mb);
            stage.bytes -= retained + made;
        }
    }

    fn pass_on(&mut self, s: usize, now: u64) -> bool {
        self.close_window(s);
        self.stages[s].next += 1;
        self.stages[s].figures.end = now;
        true
    }

    /// The micro-batch whose recompute may be done now, and its whole work.
    fn target(&self, s: usize) -> Option<(usize, u64)> {
        let mut rest = self.schedule.stages[s].iter();
        let backward = rest.find_map(|a| match a {
            Action::Backward(mb) if !self.stages[s].backwards.contains(&mb.0) => Some(mb.0),
            _ => None,
        })?;
        let ready = self.stages[s].forwards.contains(&backward);
        ready.then(|| {
            (
                backward,
                self.size(self.costs.stages[s].ahead.work.0, backward),
            )
        })
    }

    /// One nanosecond in a window of stage `s`, in which at most `most` is hidden.
    fn host(&mut self, s: usize, window: Window, most: u64) {
        let Some((mb, work)) = self.target(s) else {
            return;
        };
        let most = if most == u64::MAX {
            most
        } else {
            self.size(most, mb)
        };
        if self.stages[s].open.is_some_and(|(open, ..)| open != window) {
            self.close_window(s);
        }
        let slowdown = u64::from(self.costs.slowdown[window]);
        let bytes = self.size(self.costs.stages[s].memory.ahead.0, mb);
        let stage = &mut self.stages[s];
        let before = stage.ahead.unwrap_or(work);
        let (_, ticks, before) = stage.open.unwrap_or((window, 0, before));
        let ticks = ticks + 1;
        stage.open = Some((window, ticks, before));
        let done = (ticks * 1000 / slowdown).min(most).min(before);
        if done > 0 {
            if stage.ahead.is_none() {
                stage.grow(bytes);
            }
            let hidden = stage.figures.hidden.entry(window).or_default();
            *hidden += stage.ahead.unwrap_or(work) - (before - done);
            stage.ahead = Some(before - done);
        }
    }

    fn close_window(&mut self, s: usize) {
        self.stages[s].open = None;
    }

    /// Lets a nanosecond pass; false if nothing goes on.
    fn tick(&mut self) -> bool {
        let mut goes_on = false;
        for s in 0..self.stages.len() {
            let Some(action) = self.head(s) else {
                continue;
            };
            if let Some((_, piece)) = self.stages[s].pieces.front().copied() {
                goes_on = true;
                if let Piece::Host(window, most) = piece
                    && most > 0
                {
                    self.host(s, window, most);
                }
                let stage = &mut self.stages[s];
                stage.figures.busy += 1;
                stage.pieces.front_mut().unwrap().0 -= 1;
                continue;
            }
            let window = self.kind_of_wait(s, action);
            *self.stages[s].figures.waiting.entry(window).or_default() += 1;
            let ahead = &self.costs.stages[s].ahead;
            let allowed = match window {
                Window::Send => ahead.send,
                Window::Receive => ahead.receive,
                _ => ahead.bubble,
            };
            if allowed {
                self.host(s, window, u64::MAX);
            } else {
                self.close_window(s);
            }
        }
        for wire in self.wires.values_mut() {
            for letter in wire.letters.iter_mut().filter(|l| l.on_wire) {
                goes_on |= letter.arrive_in > 0;
                letter.left_in = letter.left_in.saturating_sub(1);
                letter.arrive_in = letter.arrive_in.saturating_sub(1);
            }
        }
        goes_on
    }

    fn kind_of_wait(&self, s: usize, action: Action) -> Window {
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
            true => Window::Receive,
            false => Window::Bubble,
        }
    }
}

impl Stage {
    fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.figures.peak = self.figures.peak.max(self.bytes);
    }
}
