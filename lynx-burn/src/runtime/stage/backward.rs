//! A micro-batch's way back through a stage.

use super::flight::Held;
use super::{Stage, StageError};
use crate::ids::MicroBatchId;
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
    ) -> Result<Gradients, StageError> {
        let mut flight = self
            .flights
            .remove(&micro_batch)
            .ok_or(StageError::NothingKept { micro_batch })?;
        let mut gradients: Gradients = gradients
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
                Held::Rebuilt { tapes } => {
                    gradients = self.pull_all(micro_batch, tapes, gradients)?;
                    self.ledger.book(micro_batch, -bytes);
                }
                Held::Input(skipped) => {
                    let all = skipped.group.len();
                    let rebuilt =
                        self.rebuild(micro_batch, flight.size(), (skipped, all), &target)?;
                    gradients = self.pull_all(micro_batch, rebuilt.tapes, gradients)?;
                    self.ledger.book(micro_batch, -(bytes + rebuilt.taken));
                }
            }
        }
        self.accumulator.settle();
        self.ledger.close(micro_batch);
        Ok(gradients)
    }

    /// Takes gradients back over the tapes of a group, from the last.
    fn pull_all(
        &mut self,
        micro_batch: MicroBatchId,
        tapes: Vec<(usize, Tape)>,
        gradients: Gradients,
    ) -> Result<Gradients, StageError> {
        let mut tapes = tapes.into_iter().rev();
        tapes.try_fold(gradients, |gradients, (piece, tape)| {
            self.pull(micro_batch, piece, tape, gradients)
        })
    }

    /// Takes gradients back over one tape, adding up the parameters'.
    fn pull(
        &mut self,
        micro_batch: MicroBatchId,
        piece: usize,
        tape: Tape,
        gradients: Gradients,
    ) -> Result<Gradients, StageError> {
        let piece = &self.pieces[piece];
        // Of several segments on one tape, the last: that is where the backward begins.
        self.position
            .at(micro_batch, piece.range.end - 1, Pass::Backward);
        let pulled = tape.backward(gradients)?;
        self.accumulator.add(piece.range.start, pulled.parameters);
        Ok(pulled.input)
    }
}
