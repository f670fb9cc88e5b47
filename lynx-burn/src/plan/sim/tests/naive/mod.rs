//! A second simulator, as plain as possible: it looks at every stage and every
//! wire at every nanosecond, and changes what can change at that instant until
//! nothing can. It shares no code with the engine but the input types.

mod pass;
mod stage;
mod window;
mod wire;

use std::collections::BTreeMap;

use super::super::costs::Costs;
use super::super::window::Window;
use crate::plan::schedule::{Action, Schedule};
use stage::{Does, Name, Piece, Stage, name};
use wire::{Wire, WireName};

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
    wires: BTreeMap<WireName, Wire>,
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, costs: &'a Costs) -> Self {
        let mut stages = Vec::new();
        for s in 0..schedule.stages.len() {
            let mut stage = Stage::default();
            for chunk in 0..schedule.chunks {
                let of_chunk = &costs.stages[chunk * schedule.stages.len() + s];
                stage.change(of_chunk.fixed.0 as i64);
            }
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

    /// What a window of this length can host.
    fn room(&self, window: Window, length: u64) -> u64 {
        let share = self.costs.contention.factor(window);
        let most = (length as f64 * share + 0.5).floor() as u64;
        most.min(length)
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
        for name in wires {
            let wire = self.wires.get_mut(&name).unwrap();
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
        let name = name(action);
        if !action.is_transfer() && !self.stages[s].running {
            self.begin(s, action);
            return true;
        }
        if !action.is_transfer() {
            let stage = &mut self.stages[s];
            if stage.pieces.front().is_some_and(|piece| piece.left == 0) {
                let piece = stage.pieces.pop_front().unwrap();
                stage.give(name, piece.frees);
                let next = stage.pieces.front().map_or(0, |next| next.takes);
                stage.take(name, next);
                self.close_window(s);
                return true;
            }
            if stage.pieces.is_empty() {
                self.end(s, action);
                return self.pass_on(s, now);
            }
            return false;
        }
        if action.is_send() {
            self.settle_send(s, action, now)
        } else {
            let (wire, boundary_of) = self.wire(s, action);
            let wire = self.wires.entry(wire).or_default();
            let letter = wire.letters.get(wire.received);
            let here = letter
                .is_some_and(|l| l.boundary_of == boundary_of && l.on_wire && l.arrive_in == 0);
            if here {
                wire.received += 1;
            }
            here && self.pass_on(s, now)
        }
    }

    fn pass_on(&mut self, s: usize, now: u64) -> bool {
        self.close_window(s);
        self.stages[s].next += 1;
        self.stages[s].figures.end = now;
        true
    }

    /// Lets a nanosecond pass; false if nothing goes on.
    fn tick(&mut self) -> bool {
        let mut goes_on = false;
        for s in 0..self.stages.len() {
            let Some(action) = self.head(s) else {
                continue;
            };
            if let Some(does) = self.stages[s].pieces.front().map(|piece| piece.does) {
                goes_on = true;
                if let Does::Host(window, most, busy) = does
                    && most > 0
                {
                    self.host(s, window, most, busy);
                }
                let stage = &mut self.stages[s];
                stage.figures.busy += 1;
                stage.pieces.front_mut().unwrap().left -= 1;
                continue;
            }
            let window = self.kind_of_wait(s, action);
            *self.stages[s].figures.waiting.entry(window).or_default() += 1;
            let allowed = self.next_backward(s).is_some_and(|next| {
                let ahead = self.backward_costs(s, next).1;
                match window {
                    Window::Send => ahead.send,
                    Window::Recv => ahead.recv,
                    _ => ahead.bubble,
                }
            });
            if allowed {
                self.host(s, window, u64::MAX, 0);
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
}
