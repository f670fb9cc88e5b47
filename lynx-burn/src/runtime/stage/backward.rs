//! A micro-batch's way back through a stage.

use super::flight::Held;
use super::piece::PieceOutput;
use super::{Stage, StageError};
use crate::ids::MicroBatchId;
use crate::runtime::boundary::Signature;
use crate::runtime::chain::Chain;
use crate::runtime::exec::position::Pass;
use crate::runtime::gradient::Gradient;
use crate::runtime::parcel::Parcel;
use crate::runtime::tape::Tape;

impl<C: Chain> Stage<C> {
    /// Takes the gradient of a micro-batch's output back through the stage; returns its input's.
    pub(crate) fn backward(
        &mut self,
        micro_batch: MicroBatchId,
        gradients: Vec<Option<Gradient>>,
    ) -> Result<Vec<Option<Gradient>>, StageError> {
        let mut flight = self
            .flights
            .remove(&micro_batch)
            .ok_or(StageError::NothingKept { micro_batch })?;
        let mut gradients: Vec<Option<Gradient>> = gradients
            .into_iter()
            .map(|gradient| gradient.map(|gradient| gradient.moved_to(&self.device)))
            .collect();
        let target = flight.take_target();
        while let Some((held, bytes)) = flight.pop() {
            match held {
                Held::Nothing => {
                    // Frozen from here down.
                    gradients.clear();
                    break;
                }
                Held::Tape { piece, tape } => {
                    gradients = self.pull(micro_batch, piece, tape, gradients)?;
                    self.ledger.book(micro_batch, -bytes);
                }
                Held::Input {
                    group,
                    input,
                    output,
                } => {
                    let before = self.meter.read();
                    let tapes = self.rebuild(micro_batch, group, input, &output, &target)?;
                    let rebuilt = match (before, self.meter.read()) {
                        (Some(before), Some(after)) => after - before,
                        _ => 0,
                    };
                    self.ledger.book(micro_batch, rebuilt);
                    for (piece, tape) in tapes.into_iter().rev() {
                        gradients = self.pull(micro_batch, piece, tape, gradients)?;
                    }
                    self.ledger.book(micro_batch, -(bytes + rebuilt));
                }
            }
        }
        self.accumulator.settle();
        self.ledger.close(micro_batch);
        Ok(gradients)
    }

    /// Runs a group again, each segment on a tape.
    fn rebuild(
        &mut self,
        micro_batch: MicroBatchId,
        group: std::ops::Range<usize>,
        input: Parcel<C::Boundary>,
        expected: &Signature,
        target: &Option<C::Target>,
    ) -> Result<Vec<(usize, Tape)>, StageError> {
        let mut tapes = Vec::with_capacity(group.len());
        let mut output = PieceOutput::Next(input);
        for piece in group {
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
        if found != *expected {
            return Err(StageError::RecomputeDiffers {
                expected: expected.dims.clone(),
                found: found.dims,
            });
        }
        Ok(tapes)
    }

    /// Takes gradients back over one tape, adding up the parameters'.
    fn pull(
        &mut self,
        micro_batch: MicroBatchId,
        piece: usize,
        tape: Tape,
        gradients: Vec<Option<Gradient>>,
    ) -> Result<Vec<Option<Gradient>>, StageError> {
        let piece = &self.pieces[piece];
        // Of several segments on one tape, the last: that is where the backward begins.
        self.position
            .at(micro_batch, piece.range.end - 1, Pass::Backward);
        let pulled = tape.backward(gradients)?;
        self.accumulator.add(piece.range.start, pulled.parameters);
        Ok(pulled.input)
    }
}
