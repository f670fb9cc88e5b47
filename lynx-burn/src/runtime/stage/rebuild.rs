//! Recomputing: a group's forward again, this time on tapes, and with what operations noted the first
//! time.
//!
//! It happens inside the backward that needs it, or before, while the stage waits for a message.
//! Either way it is the same work from the same input, and is measured here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use super::flight::Skipped;
use super::piece::PieceOutput;
use super::ranks::{Ranks, SumPass};
use super::{Stage, StageError};
use crate::ids::MicroBatchId;
use crate::runtime::boundary::Signature;
use crate::runtime::chain::Chain;
use crate::runtime::exec::position::Pass;
use crate::runtime::ops::notes;
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

/// What came of it.
pub(super) struct Rebuilt<C: Chain> {
    /// By piece, from the first.
    pub(super) tapes: Vec<(usize, Tape)>,
    /// The bytes that this took; they are in the ledger.
    pub(super) taken: i64,
    /// What of the group is still to be recomputed.
    pub(super) rest: Option<Skipped<C>>,
}

/// What rebuilding a group took the last time, by its first piece and the micro-batch's size.
pub(super) type Sizes = BTreeMap<(usize, u64), i64>;

impl<C: Chain> Stage<C> {
    /// Runs the first `pieces` of a group again, each on a tape.
    pub(super) fn rebuild(
        &mut self,
        micro_batch: MicroBatchId,
        size: u64,
        (skipped, pieces): (Skipped<C>, usize),
        target: &Option<C::Target>,
        ranks: &mut dyn Ranks<C>,
    ) -> Result<Rebuilt<C>, StageError> {
        let mut begin = Instant::now();
        let before = self.reading();
        let Skipped {
            group,
            input,
            notes,
            output: expected,
        } = skipped;
        let mut notes = notes.into_iter();
        let until = group.end.min(group.start.saturating_add(pieces));
        // A group that is replayed with its collectives does all of them once more, the last one too,
        // whose sum nobody needs: so does Megatron-LM, which runs a layer's whole forward again, and
        // so planners count. Without collectives inside there is nothing to repeat.
        let repeats = self.repeats_sums(&group) && until == group.end;
        let mut unnoted = group.start;
        let mut tapes = Vec::with_capacity(until - group.start);
        let mut output = PieceOutput::Next(input);
        for piece in group.start..until {
            let PieceOutput::Next(current) = output else {
                break;
            };
            let (tape, next) = notes::read(notes.next().unwrap_or_default(), || {
                self.tracked(piece, Pass::Recompute, micro_batch, current, target)
            })?;
            for segment in self.pieces[piece].range.clone() {
                self.recomputed[segment - self.first] += 1;
            }
            tapes.push((piece, tape));
            output = next;
            if repeats
                && self.is_followed_by_sum(piece)
                && let PieceOutput::Next(part) = output
            {
                self.note(micro_batch, unnoted..piece + 1, begin);
                let pass = (micro_batch, SumPass::Repeated);
                output = PieceOutput::Next(self.summed(piece, pass, part, ranks)?.0);
                (begin, unnoted) = (Instant::now(), piece + 1);
            }
        }
        let rest = match output {
            PieceOutput::Next(input) if until < group.end => Some(Skipped {
                group: until..group.end,
                input,
                notes: notes.collect(),
                output: expected,
            }),
            output => {
                let found = Signature::of(&output);
                if found != expected {
                    return Err(StageError::RecomputeDiffers {
                        expected: expected.dims,
                        found: found.dims,
                    });
                }
                None
            }
        };
        let taken = match (before, self.reading()) {
            (Some(before), Some(after)) => after - before,
            _ => 0,
        };
        if rest.is_none() && before.is_some() {
            self.sizes.insert((group.start, size), taken);
        }
        self.ledger.book(micro_batch, taken);
        self.note(micro_batch, unnoted..until, begin);
        Ok(Rebuilt { tapes, taken, rest })
    }

    /// These pieces were recomputed since `begin`.
    fn note(&mut self, micro_batch: MicroBatchId, pieces: Range<usize>, begin: Instant) {
        self.rebuildings.push(Rebuilding {
            micro_batch,
            segments: self.segments_of(&pieces),
            begin,
            end: Instant::now(),
            retained: self.ledger.current(),
        });
    }

    /// Whether a group is replayed with collectives.
    pub(super) fn repeats_sums(&self, group: &Range<usize>) -> bool {
        let mut inner = group.start..group.end.saturating_sub(1);
        inner.any(|piece| self.is_followed_by_sum(piece))
    }

    /// Whether ranks meet behind a piece.
    pub(super) fn is_followed_by_sum(&self, piece: usize) -> bool {
        let range = &self.pieces[piece].range;
        let last = range.end.checked_sub(1).filter(|_| !range.is_empty());
        last.is_some_and(|last| self.sums.behind(last).is_some())
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
