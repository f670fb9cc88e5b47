//! Recomputing: a group's forward again, this time on tapes.
//!
//! It happens inside the backward that needs it, or before, while the stage waits for a message.
//! Either way it is the same work from the same input, and is measured here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use super::flight::Skipped;
use super::piece::PieceOutput;
use super::{Stage, StageError};
use crate::ids::MicroBatchId;
use crate::runtime::boundary::Signature;
use crate::runtime::chain::Chain;
use crate::runtime::exec::position::Pass;
use crate::runtime::tape::Tape;
use crate::units::Bytes;

/// One group that was recomputed.
#[derive(Clone, Debug)]
pub(crate) struct Rebuilding {
    pub(crate) micro_batch: MicroBatchId,
    /// Of the whole chain.
    pub(crate) segments: Range<usize>,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
    /// What the stage keeps afterwards.
    pub(crate) retained: Bytes,
}

/// What rebuilding a group took the last time, by its first piece and the micro-batch's size.
pub(super) type Sizes = BTreeMap<(usize, u64), i64>;

impl<C: Chain> Stage<C> {
    /// Runs a group again, each piece on a tape; returns the tapes and the bytes they took, which
    /// are in the ledger.
    pub(super) fn rebuild(
        &mut self,
        micro_batch: MicroBatchId,
        size: u64,
        skipped: Skipped<C>,
        target: &Option<C::Target>,
    ) -> Result<(Vec<(usize, Tape)>, i64), StageError> {
        let begin = Instant::now();
        let before = self.meter.read();
        let Skipped {
            group,
            input,
            output: expected,
        } = skipped;
        let segments = self.segments_of(&group);
        let mut tapes = Vec::with_capacity(group.len());
        let mut output = PieceOutput::Next(input);
        for piece in group.clone() {
            let PieceOutput::Next(current) = output else {
                break;
            };
            let (tape, next) = self.tracked(piece, Pass::Recompute, micro_batch, current, target);
            for segment in self.pieces[piece].range.clone() {
                self.recomputed[segment - self.first] += 1;
            }
            tapes.push((piece, tape));
            output = next;
        }
        let found = Signature::of(&output);
        if found != expected {
            return Err(StageError::RecomputeDiffers {
                expected: expected.dims,
                found: found.dims,
            });
        }
        drop(output);
        let taken = match (before, self.meter.read()) {
            (Some(before), Some(after)) => {
                self.sizes.insert((group.start, size), after - before);
                after - before
            }
            _ => 0,
        };
        self.ledger.book(micro_batch, taken);
        self.rebuildings.push(Rebuilding {
            micro_batch,
            segments,
            begin,
            end: Instant::now(),
            retained: self.ledger.current(),
        });
        Ok((tapes, taken))
    }

    /// What was recomputed since this was last asked.
    pub(crate) fn take_rebuildings(&mut self) -> Vec<Rebuilding> {
        std::mem::take(&mut self.rebuildings)
    }

    /// The segments of a group of pieces.
    pub(super) fn segments_of(&self, group: &Range<usize>) -> Range<usize> {
        let pieces = self.pieces.get(group.clone()).unwrap_or_default();
        match (pieces.first(), pieces.last()) {
            (Some(first), Some(last)) => first.range.start..last.range.end,
            _ => 0..0,
        }
    }
}
