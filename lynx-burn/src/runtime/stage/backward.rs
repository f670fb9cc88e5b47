//! A micro-batch's way back through a stage.

use super::flight::Held;
use super::ranks::{Ranks, Sum, SumPass};
use super::{Stage, StageError};
use crate::ids::{MicroBatchId, SegmentId};
use crate::runtime::chain::Chain;
use crate::runtime::exec::position::Pass;
use crate::runtime::gradient::Gradient;
use crate::runtime::tape::Tape;

/// Gradients of a boundary's float tensors.
type Gradients = Vec<Option<Gradient>>;

impl<C: Chain> Stage<C> {
    /// Takes the gradient of a micro-batch's output back through the stage; returns its input's.
    pub(crate) fn backward(
        &mut self,
        micro_batch: MicroBatchId,
        gradients: Gradients,
        ranks: &mut dyn Ranks<C>,
    ) -> Result<Gradients, StageError> {
        let nothing = StageError::NothingKept { micro_batch };
        let flight = self.flights.get_mut(&micro_batch).ok_or(nothing)?;
        let target = flight.take_target();
        let size = flight.size();
        let mut gradients: Gradients = gradients
            .into_iter()
            .map(|gradient| gradient.map(|gradient| gradient.moved_to(&self.device)))
            .collect();
        self.join_streams();
        // What is left stays in its place: in between, it may be recomputed ahead.
        while let Some((held, bytes)) = self.pop_held(micro_batch) {
            match held {
                Held::Nothing => {
                    // Frozen from here down.
                    gradients.clear();
                    break;
                }
                Held::Tape { piece, tape } => {
                    let pulled = self.pull(micro_batch, piece, tape, gradients)?;
                    self.ledger.book(micro_batch, -bytes);
                    gradients = self.summed_back(micro_batch, piece, pulled, ranks)?;
                }
                Held::Rebuilt { tapes } => {
                    gradients = self.pull_all(micro_batch, tapes, gradients, bytes, ranks)?;
                }
                Held::Input(skipped) => {
                    let work = (skipped, usize::MAX);
                    let rebuilt = self.rebuild(micro_batch, size, work, &target, ranks)?;
                    let bytes = bytes + rebuilt.taken;
                    let tapes = rebuilt.tapes;
                    gradients = self.pull_all(micro_batch, tapes, gradients, bytes, ranks)?;
                }
            }
        }
        self.flights.remove(&micro_batch);
        self.accumulator.settle();
        self.ledger.close(micro_batch);
        Ok(gradients)
    }

    fn pop_held(&mut self, micro_batch: MicroBatchId) -> Option<(Held<C>, i64)> {
        self.flights.get_mut(&micro_batch)?.pop()
    }

    /// Takes gradients back over the tapes of a group, from the last; together they held so many
    /// bytes.
    fn pull_all(
        &mut self,
        micro_batch: MicroBatchId,
        tapes: Vec<(usize, Tape)>,
        mut gradients: Gradients,
        bytes: i64,
        ranks: &mut dyn Ranks<C>,
    ) -> Result<Gradients, StageError> {
        let mut tapes = tapes.into_iter().rev().peekable();
        while let Some((piece, tape)) = tapes.next() {
            let pulled = self.pull(micro_batch, piece, tape, gradients)?;
            if tapes.peek().is_none() {
                self.ledger.book(micro_batch, -bytes);
            }
            gradients = self.summed_back(micro_batch, piece, pulled, ranks)?;
        }
        Ok(gradients)
    }

    /// Takes gradients back over one tape, adding up the parameters'. Returns the input's and which
    /// of them are parts of sums.
    fn pull(
        &mut self,
        micro_batch: MicroBatchId,
        piece: usize,
        tape: Tape,
        gradients: Gradients,
    ) -> Result<(Gradients, Vec<usize>), StageError> {
        let piece = &self.pieces[piece];
        // Of several segments on one tape, the last: that is where the backward begins.
        let last = piece.range.end.saturating_sub(1);
        self.position.at(micro_batch, last, Pass::Backward);
        let pulled = tape.backward(gradients)?;
        self.accumulator.add(piece.range.start, pulled.parameters);
        Ok((pulled.input, pulled.sums))
    }

    /// The gradients of a piece's input after the collective before the piece, if there is one.
    fn summed_back(
        &mut self,
        micro_batch: MicroBatchId,
        piece: usize,
        (mut gradients, places): (Gradients, Vec<usize>),
        ranks: &mut dyn Ranks<C>,
    ) -> Result<Gradients, StageError> {
        let start = self.pieces[piece].range.start;
        let Some((_, window)) = self.sums.before(start) else {
            return Ok(gradients);
        };
        let behind = start - 1;
        let missing = |place: &usize| gradients.get(*place).is_none_or(Option::is_none);
        if places.iter().all(missing) {
            // Below a frozen beginning there is none, on any rank.
            return Ok(gradients);
        }
        let taken = places.iter().map(|&place| gradients.get_mut(place)?.take());
        let parts: Option<Vec<Gradient>> = taken.collect();
        let segment = SegmentId(behind);
        let parts = parts.ok_or(StageError::NothingToSum { segment })?;
        let sum = Sum {
            micro_batch,
            behind,
            pass: SumPass::Backward,
            window,
        };
        let sums = ranks.sum(self, sum, parts)?;
        self.join_streams();
        for (place, sum) in places.into_iter().zip(sums) {
            gradients[place] = Some(sum);
        }
        Ok(gradients)
    }
}
