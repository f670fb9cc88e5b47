//! What one micro-batch keeps on a stage between its forward and its backward.

use std::ops::Range;

use super::rebuild::Rebuilt;
use crate::runtime::boundary::Signature;
use crate::runtime::chain::Chain;
use crate::runtime::ops::notes::Notes;
use crate::runtime::parcel::Parcel;
use crate::runtime::tape::Tape;

/// What is kept for one run of segments.
pub(super) enum Held<C: Chain> {
    /// A retained piece's tape.
    Tape { piece: usize, tape: Tape },
    /// The first input of a group of pieces, which is recomputed.
    Input(Skipped<C>),
    /// The tapes of a group that was recomputed before its backward, from its first piece on.
    Rebuilt { tapes: Vec<(usize, Tape)> },
    /// Nothing below needs a gradient.
    Nothing,
}

/// A group of pieces whose tapes were not kept.
pub(super) struct Skipped<C: Chain> {
    pub(super) group: Range<usize>,
    pub(super) input: Parcel<C::Boundary>,
    /// What its first forward noted, by piece.
    pub(super) notes: Vec<Notes>,
    /// What the group's first forward gave, to compare its recomputation with.
    pub(super) output: Signature,
}

/// One micro-batch on its way through a stage.
pub(super) struct Flight<C: Chain> {
    arrived: i64,
    /// Bytes of all tensors that came in: micro-batches of one size have tapes of one size.
    size: u64,
    /// In run order, with the bytes that each run keeps.
    held: Vec<(Held<C>, i64)>,
    target: Option<C::Target>,
}

impl<C: Chain> Flight<C> {
    /// `arrived` are the bytes that the ledger counts, `size` all.
    pub(super) fn new(arrived: i64, size: u64) -> Self {
        Self {
            arrived,
            size,
            held: Vec::new(),
            target: None,
        }
    }

    /// Bytes of the boundary that came from outside.
    pub(super) fn arrived(&self) -> i64 {
        self.arrived
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn push(&mut self, held: Held<C>, bytes: i64) {
        self.held.push((held, bytes));
    }

    /// Takes `change` (negative) off the last run's bytes: its output went.
    pub(super) fn release_from_last(&mut self, change: i64) {
        match self.held.last_mut() {
            Some((_, bytes)) => *bytes += change,
            None => self.arrived += change,
        }
    }

    pub(super) fn pop(&mut self) -> Option<(Held<C>, i64)> {
        self.held.pop()
    }

    /// What is held, with its place, from the last run to the first.
    pub(super) fn last_to_first(&self) -> impl Iterator<Item = (usize, &Held<C>)> {
        let runs = self.held.iter().enumerate().rev();
        runs.map(|(place, (held, _))| (place, held))
    }

    /// Takes out a group that was not recomputed yet; `put_rebuilt` must follow.
    pub(super) fn take_skipped(&mut self, place: usize) -> Option<Skipped<C>> {
        let (held, _) = self.held.get_mut(place)?;
        match std::mem::replace(held, Held::Nothing) {
            Held::Input(skipped) => Some(skipped),
            other => {
                *held = other;
                None
            }
        }
    }

    /// Puts in what a group's recomputation gave and took.
    pub(super) fn put_rebuilt(&mut self, place: usize, rebuilt: Rebuilt<C>) {
        let Rebuilt { tapes, taken, rest } = rebuilt;
        if let Some((held, bytes)) = self.held.get_mut(place) {
            *held = Held::Rebuilt { tapes };
            *bytes += taken;
            if let Some(rest) = rest {
                // Its input came with the tapes before it.
                self.held.insert(place + 1, (Held::Input(rest), 0));
            }
        }
    }

    pub(super) fn set_target(&mut self, target: Option<C::Target>) {
        self.target = target;
    }

    pub(super) fn target(&self) -> &Option<C::Target> {
        &self.target
    }

    pub(super) fn take_target(&mut self) -> Option<C::Target> {
        self.target.take()
    }
}
