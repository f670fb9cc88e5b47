//! What a stage of the naive simulator has.

use std::collections::{BTreeMap, VecDeque};

use super::super::super::window::Window;
use super::Figures;
use crate::plan::schedule::Action;

#[derive(Default)]
pub(super) struct Stage {
    pub(super) figures: Figures,
    pub(super) next: usize,
    /// Pieces of the pass under way.
    pub(super) pieces: VecDeque<Piece>,
    pub(super) running: bool,
    pub(super) forwards: Vec<Name>,
    /// Those that have made their gradient.
    pub(super) backwards: Vec<Name>,
    /// Work left ahead of the next backward, once begun.
    pub(super) ahead: Option<u64>,
    /// The window that is open: which, for how long, and what was ahead before.
    pub(super) open: Option<(Window, u64, u64)>,
    /// A message is accepted, and the stage stands still until it has left.
    pub(super) leaving: Option<usize>,
    pub(super) bytes: i64,
    /// Of those, what each micro-batch has taken on each chunk.
    pub(super) held: BTreeMap<Name, i64>,
}

/// One micro-batch on one chunk.
pub(super) type Name = (usize, usize);

pub(super) fn name(action: Action) -> Name {
    (action.micro_batch().0, action.chunk().0)
}

pub(super) struct Piece {
    pub(super) left: u64,
    pub(super) does: Does,
    pub(super) takes: u64,
    pub(super) frees: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Does {
    Busy,
    Exposed,
    /// A forward collective with the most it takes of the work ahead, and what
    /// else is done beside it.
    Host(Window, u64, u64),
}

impl Stage {
    pub(super) fn change(&mut self, bytes: i64) {
        self.bytes += bytes;
        self.figures.peak = self.figures.peak.max(self.bytes as u64);
    }

    pub(super) fn take(&mut self, name: Name, bytes: u64) {
        *self.held.entry(name).or_default() += bytes as i64;
        self.change(bytes as i64);
    }

    pub(super) fn give(&mut self, name: Name, bytes: u64) {
        // What is rounded up when it is freed was never there.
        let held = self.held.entry(name).or_default();
        let bytes = (bytes as i64).min(*held);
        *held -= bytes;
        self.bytes -= bytes;
    }
}
