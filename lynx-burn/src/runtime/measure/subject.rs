//! The chain under measurement: its segments' modules and inputs, one at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use burn::prelude::*;

use super::{MeasureError, SegmentFailure};
use crate::ids::{MicroBatchId, RankId, SegmentId};
use crate::plan::layout::ChainLayout;
use crate::runtime::boundary::{Boundary, Lower, Signature, TensorMap, ToDevice};
use crate::runtime::chain::{Chain, Context, Mode};
use crate::runtime::exec::error::Cause;
use crate::runtime::exec::position::{Pass, Position};
use crate::runtime::memory::Meter;
use crate::runtime::ops::notes::{self, Notes};
use crate::runtime::parameters::{self, ParameterInfo};
use crate::runtime::parcel::Parcel;
use crate::runtime::shard::{self, ShardingError};
use crate::runtime::stage::{Piece, PieceOutput};

/// The one micro-batch there is.
pub(super) const MICRO_BATCH: MicroBatchId = MicroBatchId(0);

/// A chain, a micro-batch and a device.
pub(super) struct Subject<C: Chain> {
    model: C,
    pub(super) layout: ChainLayout,
    input: Parcel<C::Boundary>,
    target: C::Target,
    /// Which of how many ranks is measured: the first, for all.
    pub(super) share: (RankId, usize),
    /// Outside autodiff.
    pub(super) device: Device,
    pub(super) position: Arc<Position>,
}

/// What a look at a segment tells.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) parameters: Vec<ParameterInfo>,
    /// Bytes of the boundary that it gets.
    pub(super) input_bytes: u64,
    /// Bytes of the boundary that it yields.
    pub(super) output_bytes: u64,
    /// Bytes of each tensor of that which ranks sum.
    pub(super) summed_bytes: Vec<u64>,
    /// Bytes of what its operations note for a recompute.
    pub(super) noted_bytes: u64,
}

impl Facts {
    /// Whether both keep parameters of the same shapes and learn the same of them.
    pub(super) fn like(&self, other: &Self) -> bool {
        let shape = |p: &ParameterInfo| (p.dims.clone(), p.bytes, p.trainable);
        let shapes = |facts: &Self| facts.parameters.iter().map(shape).collect::<Vec<_>>();
        shapes(self) == shapes(other)
    }
}

impl<C: Chain> Subject<C> {
    pub(super) fn new(
        model: C,
        layout: ChainLayout,
        (input, target): (C::Boundary, C::Target),
        (device, ranks): (&Device, usize),
        position: Arc<Position>,
    ) -> Self {
        let device = device.clone().inner();
        let input = input.map_tensors(&mut Lower);
        let target = target.map_tensors(&mut Lower);
        Self {
            model,
            layout,
            input: Parcel::from_outside(input.map_tensors(&mut ToDevice(&device))),
            target: target.map_tensors(&mut ToDevice(&device)),
            share: (RankId(0), ranks),
            device,
            position,
        }
    }

    /// The chain reduced to some segments, as a trainer makes it for a stage's rank.
    pub(super) fn module(&self, range: Range<usize>) -> C {
        let part = self.model.clone().keep(range);
        let part = part.fork(&self.device.clone().autodiff());
        let part = match self.share {
            (_, 1) => part,
            (rank, ranks) => shard::cut(part, rank, ranks),
        };
        part.valid().train()
    }

    /// Refuses parameters that cannot be dealt to the ranks.
    pub(super) fn check_ranks(&self) -> Result<(), ShardingError> {
        let ranks = self.share.1;
        if ranks == 1 {
            return Ok(());
        }
        let mut split = false;
        for segment in 0..self.layout.len() {
            let part = self.model.clone().keep(segment..segment + 1);
            split |= shard::check(&part.fork(&self.device.clone().autodiff()), ranks)?;
        }
        match split {
            true => Ok(()),
            false => Err(ShardingError::NothingSplit { ranks }),
        }
    }

    pub(super) fn piece(&self, segment: usize) -> Piece<C> {
        let range = segment..segment + 1;
        Piece::of(&self.module(range.clone()), range)
    }

    /// For a pass that ends with this segment.
    pub(super) fn target_of(&self, segment: usize) -> Option<&C::Target> {
        (segment + 1 == self.layout.len()).then_some(&self.target)
    }

    /// The context of a segment, noting that it is the one being run.
    pub(super) fn context(&self, pass: Pass, segment: usize) -> Context {
        // The loss, which comes behind the last segment, counts as a part of it.
        let place = segment.min(self.layout.len().saturating_sub(1));
        self.position.at(MICRO_BATCH, place, pass);
        let (rank, ranks) = self.share;
        Context::new(Mode::Training, 0, 0, MICRO_BATCH, SegmentId(segment)).on_rank(rank, ranks)
    }

    /// Waits until the device has done everything.
    pub(super) fn settle(&self) -> Result<(), MeasureError> {
        let done = self.device.sync();
        done.map_err(|error| MeasureError::Device(error.to_string()))
    }

    /// The error of what was being done.
    pub(super) fn failed(&self, cause: Cause) -> MeasureError {
        let place = self.position.place();
        let segment = place.segment.and_then(|s| self.layout.segments().get(s.0));
        MeasureError::Segment(Box::new(SegmentFailure {
            name: segment.map_or_else(|| "the chain".to_owned(), |s| s.name.clone()),
            place,
            cause,
        }))
    }

    /// Looks at every segment.
    pub(super) fn survey(&self) -> Result<Vec<Facts>, MeasureError> {
        let mut facts: Vec<Facts> = Vec::with_capacity(self.layout.len());
        let smallest = Meter::of(&self.device).smallest();
        self.walk(self.layout.len(), |piece, input, (output, notes)| {
            let summed_bytes = match output {
                PieceOutput::Next(boundary) => SummedSizes::of(boundary),
                PieceOutput::Loss(_) => {
                    // Ranks meet before the loss.
                    let context = |segment| self.context(Pass::Forward, segment);
                    let before = piece.untracked(input.clone(), None, context, |_, _| {});
                    SummedSizes::of(&before)
                }
            };
            facts.push(Facts {
                summed_bytes,
                parameters: parameters::list(&piece.resting.clone().train()),
                input_bytes: Signature::of(input).bytes(),
                output_bytes: Signature::of(output).bytes(),
                noted_bytes: notes.bytes_from(smallest),
            });
        });
        self.settle()?;
        Ok(facts)
    }

    /// The inputs of these segments, which ascend.
    pub(super) fn inputs(
        &self,
        segments: &[usize],
    ) -> Result<BTreeMap<usize, Parcel<C::Boundary>>, MeasureError> {
        let mut found = BTreeMap::new();
        let end = segments.last().map_or(0, |last| last + 1);
        self.walk(end, |piece, input, _| {
            if segments.contains(&piece.range.start) {
                found.insert(piece.range.start, input.clone());
            }
        });
        self.settle()?;
        Ok(found)
    }

    /// Runs the segments before `end`, keeping nothing.
    fn walk(
        &self,
        end: usize,
        mut seen: impl FnMut(&Piece<C>, &Parcel<C::Boundary>, (&PieceOutput<C::Boundary>, &Notes)),
    ) {
        let mut current = self.input.clone();
        for segment in 0..end {
            let piece = self.piece(segment);
            let input = current.clone();
            let context = |segment| self.context(Pass::Forward, segment);
            let target = self.target_of(segment);
            let forward = || piece.untracked(current, target, context, |_, _| {});
            let (output, notes) = notes::write(forward);
            seen(&piece, &input, (&output, &notes));
            let PieceOutput::Next(next) = output else {
                break;
            };
            current = next;
        }
    }
}

/// Bytes of the tensors that ranks sum.
struct SummedSizes(Vec<u64>);

impl SummedSizes {
    fn of<B: Boundary>(boundary: &B) -> Vec<u64> {
        let mut sizes = Self(Vec::new());
        let _ = boundary.clone().map_tensors(&mut sizes);
        sizes.0
    }
}

impl TensorMap for SummedSizes {
    fn summed<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let elements = tensor.shape().num_elements();
        self.0.push((elements * tensor.dtype().size()) as u64);
        tensor
    }
}
