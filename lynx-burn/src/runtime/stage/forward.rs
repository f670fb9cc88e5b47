//! A micro-batch's way through a stage.

use super::flight::{Flight, Held, Skipped};
use super::piece::{PieceOutput, PieceRun};
use super::ranks::{PutSums, Ranks, Sum, SumPass, SummedPlaces, TakeParts};
use super::{Stage, StageError};
use crate::ids::{MicroBatchId, SegmentId};
use crate::runtime::boundary::{Boundary, Signature, ToDevice};
use crate::runtime::chain::{Chain, Mode};
use crate::runtime::exec::position::Pass;
use crate::runtime::ops::notes;
use crate::runtime::parcel::Parcel;

impl<C: Chain> Stage<C> {
    /// Takes a micro-batch through the stage, keeping what its backward will need.
    ///
    /// `target` is there on the last stage, whose output then is the loss.
    pub(crate) fn forward(
        &mut self,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: Option<C::Target>,
        ranks: &mut dyn Ranks<C>,
    ) -> Result<PieceOutput<C::Boundary>, StageError> {
        let input = input.map_tensors(&mut ToDevice(&self.device));
        let target = target.map(|target| target.map_tensors(&mut ToDevice(&self.device)));
        self.join_streams();
        let arriving = Signature::of(&input);
        let arrived = arriving.bytes_from(self.meter.smallest());
        let mut flight = Flight::new(arrived, arriving.bytes());
        self.ledger.watch();
        self.ledger.book(micro_batch, flight.arrived());
        let mut output = PieceOutput::Next(input);
        for run in self.runs.clone() {
            let PieceOutput::Next(current) = output else {
                break;
            };
            let before = self.reading();
            let held_input = current.clone();
            let last = match &run {
                PieceRun::Retain(piece) => *piece,
                PieceRun::Recompute(group) => group.end - 1,
            };
            let (held, produced) = match run {
                PieceRun::Retain(piece) => self.retain(piece, micro_batch, current, &target)?,
                PieceRun::Recompute(group) => {
                    self.skip(group, micro_batch, current, &target, ranks)?
                }
            };
            output = produced;
            let after = self.reading();
            // What the run allocated and kept is its own; what goes with its input, if nobody
            // kept that, belonged to whoever made the input.
            drop(held_input);
            let dropped = self.reading();
            let kept = match (before, after, dropped) {
                (Some(before), Some(after), Some(dropped)) => {
                    flight.release_from_last(dropped - after);
                    self.ledger.book(micro_batch, dropped - before);
                    after - before
                }
                _ => {
                    let kept = match &held {
                        Held::Input(skipped) => self.bytes_of(&skipped.input),
                        _ => 0,
                    };
                    self.ledger.book(micro_batch, kept);
                    kept
                }
            };
            flight.push(held, kept);
            if let PieceOutput::Next(part) = output {
                let pass = (micro_batch, SumPass::Forward);
                let (sum, grown) = self.summed(last, pass, part, ranks)?;
                // What a tape keeps of its part, it keeps beside the sum.
                self.ledger.book(micro_batch, grown);
                flight.release_from_last(grown);
                output = PieceOutput::Next(sum);
            }
        }
        if let (PieceOutput::Next(boundary), Some(_)) = (&output, self.reading()) {
            // The boundary is the next stage's from here on.
            let sent = -self.bytes_of(boundary);
            self.ledger.book(micro_batch, sent);
            flight.release_from_last(sent);
        }
        self.forward_growth.1 = self.forward_growth.1.max(self.ledger.watched_growth());
        flight.set_target(target);
        self.flights.insert(micro_batch, flight);
        Ok(output)
    }

    /// What the ranks have made of a piece's output, if a collective follows the piece, and by how
    /// many bytes that is more.
    pub(super) fn summed(
        &mut self,
        piece: usize,
        (micro_batch, pass): (MicroBatchId, SumPass),
        part: Parcel<C::Boundary>,
        ranks: &mut dyn Ranks<C>,
    ) -> Result<(Parcel<C::Boundary>, i64), StageError> {
        let range = &self.pieces[piece].range;
        let Some(behind) = range.end.checked_sub(1).filter(|_| !range.is_empty()) else {
            return Ok((part, 0));
        };
        let segment = SegmentId(behind);
        let Some((window, _)) = self.sums.behind(behind) else {
            return Ok((part, 0));
        };
        let mut taken = TakeParts::default();
        let mut part = part.map_tensors(&mut taken);
        if taken.0.is_empty() {
            return Err(StageError::NothingToSum { segment });
        }
        part.part_with(&SummedPlaces::of(&part));
        let sum = Sum {
            micro_batch,
            behind,
            pass,
            window,
        };
        let entered = self.reading();
        let sums = ranks.sum(self, sum, taken.0)?;
        self.join_streams();
        let smallest = self.meter.smallest();
        let sizes = sums.iter().map(|sum| sum.bytes());
        let made: u64 = sizes.filter(|&size| size >= smallest).sum();
        if let (Some(entered), Some(left)) = (entered, self.reading()) {
            // What the ranks leave with each other, and recompute beside the sum, which is booked
            // where it is done.
            self.elsewhere += left - entered - made as i64;
        }
        let before = self.reading();
        let summed = part.map_tensors(&mut PutSums(sums.into_iter()));
        let grown = match (before, self.reading()) {
            (Some(before), Some(after)) => after - before + made as i64,
            _ => 0,
        };
        Ok((summed, grown))
    }

    /// Bytes of a boundary's tensors, as far as the meter would see them.
    fn bytes_of(&self, boundary: &Parcel<C::Boundary>) -> i64 {
        Signature::of(boundary).bytes_from(self.meter.smallest())
    }

    /// A piece whose tape is kept.
    fn retain(
        &mut self,
        piece: usize,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: &Option<C::Target>,
    ) -> Result<(Held<C>, PieceOutput<C::Boundary>), StageError> {
        if self.pieces[piece].range.start < self.first_trainable {
            let output = self.untracked(piece, Mode::Training, micro_batch, input, target)?;
            return Ok((Held::Nothing, output));
        }
        let (tape, output) = self.tracked(piece, Pass::Forward, micro_batch, input, target)?;
        Ok((Held::Tape { piece, tape }, output))
    }

    /// A group that will be recomputed: only its first input is kept, and what operations note. The
    /// sum behind the group is for the caller.
    fn skip(
        &mut self,
        group: std::ops::Range<usize>,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: &Option<C::Target>,
        ranks: &mut dyn Ranks<C>,
    ) -> Result<(Held<C>, PieceOutput<C::Boundary>), StageError> {
        let mut output = PieceOutput::Next(input);
        let mut kept = None;
        let mut notes = Vec::with_capacity(group.len());
        for piece in group.clone() {
            let PieceOutput::Next(current) = output else {
                break;
            };
            if kept.is_none() && self.pieces[piece].range.start >= self.first_trainable {
                kept = Some((piece, current.clone()));
            }
            let forward = || self.untracked(piece, Mode::Training, micro_batch, current, target);
            output = if kept.is_some() {
                let (output, noted) = notes::write(forward);
                notes.push(noted);
                output?
            } else {
                forward()?
            };
            if piece + 1 < group.end
                && let PieceOutput::Next(part) = output
            {
                let pass = (micro_batch, SumPass::Forward);
                output = PieceOutput::Next(self.summed(piece, pass, part, ranks)?.0);
            }
        }
        let held = match kept {
            Some((first, input)) => Held::Input(Skipped {
                group: first..group.end,
                input,
                notes,
                output: Signature::of(&output),
            }),
            None => Held::Nothing,
        };
        Ok((held, output))
    }

    /// Takes a micro-batch through the stage and keeps nothing.
    pub(crate) fn infer(
        &mut self,
        mode: Mode,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: Option<C::Target>,
        ranks: &mut dyn Ranks<C>,
    ) -> Result<PieceOutput<C::Boundary>, StageError> {
        let target = target.map(|target| target.map_tensors(&mut ToDevice(&self.device)));
        let mut output = PieceOutput::Next(input.map_tensors(&mut ToDevice(&self.device)));
        self.join_streams();
        for piece in 0..self.pieces.len() {
            let PieceOutput::Next(current) = output else {
                break;
            };
            if self.pieces[piece].range.is_empty() && target.is_none() {
                // A loss without a target: what is before it is the output.
                return Ok(PieceOutput::Next(current));
            }
            output = self.untracked(piece, mode, micro_batch, current, &target)?;
            if let PieceOutput::Next(part) = output {
                let pass = (micro_batch, SumPass::Forward);
                output = PieceOutput::Next(self.summed(piece, pass, part, ranks)?.0);
            }
        }
        Ok(output)
    }
}
