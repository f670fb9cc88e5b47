//! How a user's model joins: an ordinary Burn module that says where it can be cut.

use std::cell::Cell;
use std::ops::Range;

use burn::prelude::*;
use lynx_kernels::random::StreamKey;

use super::boundary::Boundary;
use super::shard::Sharding;
use crate::ids::{MicroBatchId, RankId, SegmentId};
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
///
/// # Several ranks
///
/// Ranks can share the segments of a chain, each with a slice of the larger parameters
/// (tensor parallelism). A chain that can be shared says how its parameters are sliced
/// ([`sharding`](Self::sharding)), where parts must be summed ([`Segment::summed`], with the
/// tensors in [`Summed`](crate::Summed)), and computes with the slices it finds. One rule makes all
/// gradients right: *the loss is the sum of what the ranks return from [`loss`](Self::loss)*. So a
/// loss that every rank can compute is divided by their number, and what is added once, like the
/// bias behind a summed product, is added by one of them (see [`Context::rank`]).
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

    /// The mean loss over one micro-batch, shape `[1]`; of several ranks, this one's share of it.
    /// Runs with the last segment, or behind the collective that follows it.
    fn loss(&self, output: Self::Boundary, target: Self::Target, context: &Context) -> Tensor<1>;

    /// Which slice of a parameter each rank holds. Default: all of it.
    ///
    /// `path` is the parameter's dotted path in the module. What every rank holds whole has the sum
    /// of all ranks' gradients, so it stays the same on all of them.
    fn sharding(&self, path: &str) -> Sharding {
        let _ = path;
        Sharding::Whole
    }

    /// One output of what the ranks made of it, in order of rank, for
    /// [`predict`](crate::Trainer::predict). Default: the first rank's.
    fn join_outputs(&self, ranks: Vec<Self::Boundary>) -> Option<Self::Boundary> {
        ranks.into_iter().next()
    }
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
    rank: RankId,
    ranks: usize,
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
            rank: RankId(0),
            ranks: 1,
            sites: Cell::new(0),
        }
    }

    /// The same for one of several ranks.
    #[must_use]
    pub fn on_rank(self, rank: RankId, ranks: usize) -> Self {
        Self {
            rank,
            ranks,
            ..self
        }
    }

    /// Which of the ranks this is.
    pub fn rank(&self) -> RankId {
        self.rank
    }

    /// How many ranks share the segment.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Whether what is to be added once, not by every rank, is added here.
    pub fn is_first_rank(&self) -> bool {
        self.rank == RankId(0)
    }

    /// Training or evaluation.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The micro-batch under way, counted in the whole step, whichever replica it is dealt to.
    pub fn micro_batch(&self) -> MicroBatchId {
        self.micro_batch
    }

    /// The key of the next place in this segment that needs chance.
    ///
    /// The first call in a pass is site 0, the second site 1, and so on: the same in the forward
    /// and in its recomputation, because both run the same code, and the same on every rank.
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
