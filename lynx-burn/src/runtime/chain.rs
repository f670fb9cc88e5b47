//! How a user's model joins: an ordinary Burn module that says where it can be cut.

use std::cell::Cell;
use std::ops::Range;

use burn::prelude::*;
use lynx_kernels::random::StreamKey;

use super::boundary::Boundary;
use crate::ids::{MicroBatchId, SegmentId};
use crate::plan::layout::Segment;

/// A model as an ordered list of segments.
///
/// Segments are what is recomputed; stages are cut between them. The methods know nothing of
/// pipelines, tapes or policies: those are chosen outside the model.
///
/// Gradients are, bit for bit, those that Burn computes for the uncut model. Floating-point addition
/// commutes but does not associate, so this needs the same order of additions, and there are two
/// sums whose order Burn leaves open: one parameter used by *three or more* segments, and one
/// boundary tensor with three or more uses of which a later segment's lies no deeper in the graph
/// than an earlier one's. There the last bit may differ.
pub trait Chain: Module + 'static {
    /// What passes between segments. The first segment receives it from the caller, so it must be
    /// able to hold the model's input too.
    type Boundary: Boundary;

    /// What the loss compares the last segment's output with.
    type Target: Boundary;

    /// All segments of the whole chain, in order, also when only a range of them was kept.
    fn segments(&self) -> Vec<Segment>;

    /// Drops the parameters that no segment in `range` uses.
    ///
    /// The closer this is, the less a stage holds, and the more precisely modules that must not be
    /// recomputed are told from those that may. Names of parameters must not change: keep a
    /// `Vec<Option<Layer>>` rather than shortening a `Vec<Layer>`. A parameter kept for segments
    /// of two stages (tied embeddings) is recognised by its name and kept equal.
    #[must_use]
    fn keep(self, range: Range<usize>) -> Self;

    /// Runs one segment.
    ///
    /// Must be a function of its arguments and the parameters: chance comes from `context`.
    /// It is called only for segments whose parameters were kept. If it panics, the trainer
    /// reports the segment and the panic's text.
    fn forward_segment(
        &self,
        index: usize,
        input: Self::Boundary,
        context: &Context,
    ) -> Self::Boundary;

    /// The mean loss over one micro-batch, shape `[1]`. Runs with the last segment.
    fn loss(&self, output: Self::Boundary, target: Self::Target) -> Tensor<1>;
}

/// Whether a forward is part of training or of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Dropout is on.
    Training,
    /// Dropout is off.
    Evaluation,
}

/// What a segment may know about the run besides its input.
#[derive(Debug)]
pub struct Context {
    mode: Mode,
    seed: u64,
    step: u64,
    micro_batch: MicroBatchId,
    segment: SegmentId,
    sites: Cell<u32>,
}

impl Context {
    /// The context of one pass over one segment.
    ///
    /// The runtime makes its own; this is for running a chain by hand, as an uncut model.
    #[must_use]
    pub fn new(
        mode: Mode,
        seed: u64,
        step: u64,
        micro_batch: MicroBatchId,
        segment: SegmentId,
    ) -> Self {
        Self {
            mode,
            seed,
            step,
            micro_batch,
            segment,
            sites: Cell::new(0),
        }
    }

    /// Training or evaluation.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The micro-batch under way.
    pub fn micro_batch(&self) -> MicroBatchId {
        self.micro_batch
    }

    /// The key of the next place in this segment that needs chance.
    ///
    /// The first call in a pass is site 0, the second site 1, and so on: the same in the forward
    /// and in its recomputation, because both run the same code.
    pub fn next_stream(&self) -> StreamKey {
        let site = self.sites.get();
        self.sites.set(site + 1);
        StreamKey {
            seed: self.seed,
            step: self.step,
            micro_batch: self.micro_batch.0 as u32,
            segment: self.segment.0 as u32,
            site,
        }
    }
}
