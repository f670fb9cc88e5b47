//! One segment, ready to run as often as it takes.

use super::MeasureError;
use super::subject::{MICRO_BATCH, Subject};
use crate::runtime::accumulator::Accumulator;
use crate::runtime::boundary::Signature;
use crate::runtime::chain::Chain;
use crate::runtime::exec::error::Cause;
use crate::runtime::exec::position::Pass;
use crate::runtime::gradient::Gradient;
use crate::runtime::ops::notes::Notes;
use crate::runtime::parcel::Parcel;
use crate::runtime::stage::{Piece, PieceOutput, StageError};
use crate::runtime::tape::Tape;
use crate::units::Nanos;

/// A segment with its module, its input and the sums of its gradients.
pub(super) struct Probe<C: Chain> {
    pub(super) segment: usize,
    pub(super) name: String,
    pub(super) input: Parcel<C::Boundary>,
    /// Whether its backward yields a gradient of its input.
    track_input: bool,
    /// Whether there is a backward to it.
    pub(super) learns: bool,
    piece: Piece<C>,
    accumulator: Accumulator,
    /// What its last forward gave.
    pub(super) output: Signature,
    /// What that noted for a recompute.
    pub(super) notes: Notes,
    pub(super) times: Times,
}

/// What was read of the clock, by round.
#[derive(Debug, Default)]
pub(super) struct Times {
    pub(super) forward: Vec<Nanos>,
    pub(super) recompute: Vec<Nanos>,
    pub(super) backward: Vec<Nanos>,
    /// What a rank does itself for the sum behind the segment.
    pub(super) handling: Vec<Nanos>,
}

/// Gradients of a boundary's float tensors.
pub(super) type Gradients = Vec<Option<Gradient>>;

impl<C: Chain> Probe<C> {
    pub(super) fn new(
        subject: &Subject<C>,
        segment: usize,
        input: Parcel<C::Boundary>,
        first_trainable: usize,
    ) -> Self {
        let piece = subject.piece(segment);
        Self {
            segment,
            name: subject.layout.segments()[segment].name.clone(),
            input,
            track_input: segment > first_trainable,
            learns: segment >= first_trainable,
            accumulator: Accumulator::new(std::iter::once((segment, &piece.resting))),
            piece,
            output: Signature::default(),
            notes: Notes::default(),
            times: Times::default(),
        }
    }

    /// The forward of a segment that nothing has to go back through.
    pub(super) fn untracked(&self, subject: &Subject<C>) -> PieceOutput<C::Boundary> {
        let target = subject.target_of(self.segment);
        let input = self.input.clone();
        let context = |segment| subject.context(Pass::Forward, segment);
        self.piece.untracked(input, target, context, |_, _| {})
    }

    /// The forward that makes a tape.
    pub(super) fn tracked(
        &self,
        subject: &Subject<C>,
        pass: Pass,
        input: Parcel<C::Boundary>,
    ) -> (Tape, PieceOutput<C::Boundary>) {
        let target = subject.target_of(self.segment);
        let context = |segment| subject.context(pass, segment);
        let (device, track) = (&subject.device, self.track_input);
        self.piece
            .tracked(device, input, target, track, context, |_, _| {})
    }

    /// The backward over such a tape; adds what it finds to the sums, as every micro-batch but
    /// the first does. Returns the gradients of the input.
    pub(super) fn backward(
        &mut self,
        subject: &Subject<C>,
        tape: Tape,
        gradients: Gradients,
    ) -> Result<Gradients, MeasureError> {
        subject
            .position
            .at(MICRO_BATCH, self.segment, Pass::Backward);
        let pulled = tape
            .backward(gradients)
            .map_err(|error| subject.failed(Cause::Stage(StageError::Gradient(error))))?;
        self.accumulator.add(self.segment, pulled.parameters);
        self.accumulator.settle();
        Ok(pulled.input)
    }
}
