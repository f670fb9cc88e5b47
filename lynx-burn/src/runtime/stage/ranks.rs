//! The other ranks of a stage, as a stage in the middle of a pass sees them.
//!
//! Between some segments what the ranks have made must be summed. A stage knows where, and what;
//! how the ranks meet, and what is done until the sum is there, is for whoever runs the stage: it
//! gets the stage back in the meantime, to recompute.

use super::{Stage, StageError};
use crate::ids::{MicroBatchId, SegmentId};
use crate::plan::cluster::Window;
use crate::plan::layout::ChainLayout;
use crate::runtime::boundary::{Boundary, TensorMap};
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::Parts;
use crate::runtime::gradient::Gradient;
use burn::prelude::*;

/// Between which segments a sum is, and in which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) micro_batch: MicroBatchId,
    /// The segment whose output it is, or the gradient of whose output.
    pub(crate) behind: usize,
    pub(crate) pass: SumPass,
    /// F1 or F2 of outputs, B1 or B2 of gradients.
    pub(crate) window: Window,
}

/// The pass that a sum is in, and what recompute may be done beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SumPass {
    /// A forward: a later backward's.
    Forward,
    /// A backward: its own.
    Backward,
    /// A recompute that repeats its collectives: nothing, it is late itself.
    Repeated,
}

/// Sums over the ranks that share a stage.
pub(crate) trait Ranks<C: Chain> {
    /// The sums of what all ranks hand over; meanwhile the stage may be used to recompute.
    fn sum(&mut self, stage: &mut Stage<C>, sum: Sum, parts: Parts) -> Result<Parts, StageError>;
}

/// A stage of one rank: there is nobody to sum with, and no layout asks for it.
pub(crate) struct Alone;

impl<C: Chain> Ranks<C> for Alone {
    fn sum(&mut self, _: &mut Stage<C>, sum: Sum, _: Parts) -> Result<Parts, StageError> {
        let segment = SegmentId(sum.behind);
        Err(StageError::NobodyToSumWith { segment })
    }
}

/// The windows behind every segment of the chain, forward and backward; nothing where no
/// collective is.
#[derive(Clone, Debug)]
pub(crate) struct Sums(Vec<Option<(Window, Window)>>);

impl Sums {
    /// A collective inside a layer is F1 and B1, one at its end F2 and B2.
    pub(crate) fn of(layout: &ChainLayout) -> Self {
        let windows = |segment: usize| {
            let layer = layout.layer_of(segment);
            let inside = layer.is_some() && layer == layout.layer_of(segment + 1);
            match inside {
                true => (Window::F1, Window::B1),
                false => (Window::F2, Window::B2),
            }
        };
        let segments = 0..layout.len();
        Self(
            segments
                .map(|segment| layout.is_summed(segment).then(|| windows(segment)))
                .collect(),
        )
    }

    /// Segments of the chain.
    pub(crate) fn segments(&self) -> usize {
        self.0.len()
    }

    /// The windows behind a segment, if there is a collective.
    pub(crate) fn behind(&self, segment: usize) -> Option<(Window, Window)> {
        self.0.get(segment).copied().flatten()
    }

    /// Those of the collective before a segment.
    pub(crate) fn before(&self, segment: usize) -> Option<(Window, Window)> {
        self.behind(segment.checked_sub(1)?)
    }
}

/// The parts that a boundary hands to a sum.
#[derive(Default)]
pub(crate) struct TakeParts(pub(crate) Parts);

impl TensorMap for TakeParts {
    fn summed<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.0.push(Gradient::new(tensor.clone()));
        tensor
    }
}

/// Puts sums in the places of their parts. All are of the parts' ranks.
pub(super) struct PutSums(pub(super) std::vec::IntoIter<Gradient>);

impl TensorMap for PutSums {
    fn summed<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let sum = self.0.next().and_then(Gradient::take::<D>);
        sum.unwrap_or(tensor)
    }
}

/// Which of a boundary's float tensors are summed, by their places among them.
#[derive(Default)]
pub(crate) struct SummedPlaces {
    floats: usize,
    places: Vec<usize>,
}

impl SummedPlaces {
    pub(crate) fn of<B: Boundary>(boundary: &B) -> Vec<usize> {
        let mut found = Self::default();
        let _ = boundary.clone().map_tensors(&mut found);
        found.places
    }
}

impl TensorMap for SummedPlaces {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.floats += 1;
        tensor
    }

    fn summed<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.places.push(self.floats);
        self.float(tensor)
    }
}

/// Which segment has handed over something to be summed although the chain tells of no collective
/// behind it. Whoever comes next would take a part for the sum, and nothing would look wrong.
#[derive(Default)]
pub(super) struct Heard(Option<SegmentId>);

impl Heard {
    /// Listens to what a segment of the stage hands on.
    pub(super) fn listen<C: Chain>(
        &mut self,
        stage: &Stage<C>,
        segment: usize,
        output: &C::Boundary,
    ) {
        let quiet = stage.share.1 == 1 || stage.sums.behind(segment).is_some();
        if !quiet && !SummedPlaces::of(output).is_empty() {
            self.0.get_or_insert(SegmentId(segment));
        }
    }

    /// The result, unless there was one.
    pub(super) fn or<R>(self, result: R) -> Result<R, StageError> {
        match self.0 {
            Some(segment) => Err(StageError::UnannouncedSum { segment }),
            None => Ok(result),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::layout::Segment;

    #[test]
    fn collectives_inside_layers_are_told_from_those_between_them() {
        let layer = |layer| {
            [
                Segment::in_layer(layer, "qkv"),
                Segment::in_layer(layer, "projection").summed(),
                Segment::in_layer(layer, "mlp").summed(),
            ]
        };
        let ends = ["embed", "head"].map(|name| Segment::outside(name).summed());
        let [embed, head] = ends;
        let all = std::iter::once(embed)
            .chain(layer(0))
            .chain(layer(1))
            .chain([head]);
        let layout = ChainLayout::new(all.collect()).expect("a chain");
        let sums = Sums::of(&layout);
        let forward: Vec<_> = (0..8).map(|s| sums.behind(s).map(|(f, _)| f)).collect();
        let (f1, f2) = (Some(Window::F1), Some(Window::F2));
        assert_eq!(forward, [f2, None, f1, f2, None, f1, f2, f2]);
        assert_eq!(sums.before(3), Some((Window::F1, Window::B1)));
        assert_eq!(sums.before(4), Some((Window::F2, Window::B2)));
        assert_eq!((sums.before(0), sums.before(2)), (None, None));
        let alone = Sums::of(&layout.without_collectives());
        assert!((0..8).all(|segment| alone.behind(segment).is_none()));
    }
}
