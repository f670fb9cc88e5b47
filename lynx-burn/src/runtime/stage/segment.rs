//! One segment's module in the two forms in which it runs.

use burn::prelude::*;

use crate::runtime::boundary::{Boundary, Lower, TensorMap};
use crate::runtime::chain::{Chain, Context};
use crate::runtime::parcel::{Parcel, Untracked};
use crate::runtime::tape::Tape;

/// What a segment yields: the next boundary or, from the chain's last segment, the loss.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one value a segment, moved a few times"
)]
pub(crate) enum SegmentOutput<B> {
    Next(Parcel<B>),
    Loss(Tensor<1>),
}

impl<B: Boundary> Boundary for SegmentOutput<B> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        match self {
            Self::Next(parcel) => Self::Next(parcel.map_tensors(map)),
            Self::Loss(loss) => Self::Loss(map.float(loss)),
        }
    }
}

pub(crate) type SegmentTape<C> = Tape<C, SegmentOutput<<C as Chain>::Boundary>>;

/// The chain reduced to one segment.
pub(super) struct SegmentModule<C> {
    pub(super) index: usize,
    /// Outside autodiff: what fresh leaves are made from.
    pub(super) resting: C,
    /// On autodiff without gradients: takes the tracked forward's code paths, keeps nothing.
    still: C,
}

impl<C: Chain> SegmentModule<C> {
    pub(super) fn of(stage: &C, index: usize) -> Self {
        let resting = stage.clone().keep(index..index + 1).valid();
        let still = resting.clone().train().no_grad();
        Self {
            index,
            resting,
            still,
        }
    }

    fn run(
        module: &C,
        index: usize,
        input: C::Boundary,
        target: Option<C::Target>,
        context: &Context,
    ) -> SegmentOutput<C::Boundary> {
        let output = module.forward_segment(index, input, context);
        match target {
            Some(target) => SegmentOutput::Loss(module.loss(output, target)),
            None => SegmentOutput::Next(Parcel::from_segment(output)),
        }
    }

    pub(super) fn untracked(
        &self,
        input: Parcel<C::Boundary>,
        target: Option<&C::Target>,
        context: &Context,
    ) -> SegmentOutput<C::Boundary> {
        let input = input.enter(&mut Untracked);
        let target = target.cloned().map(on_autodiff);
        Self::run(&self.still, self.index, input, target, context).map_tensors(&mut Lower)
    }

    pub(super) fn tracked(
        &self,
        device: &Device,
        input: Parcel<C::Boundary>,
        target: Option<&C::Target>,
        track_input: bool,
        context: &Context,
    ) -> (SegmentTape<C>, SegmentOutput<C::Boundary>) {
        let leaves = self.resting.clone().train();
        let target = target.cloned().map(on_autodiff);
        Tape::record(leaves, device, input, track_input, |module, input| {
            Self::run(module, self.index, input, target, context)
        })
    }
}

fn on_autodiff<T: Boundary>(target: T) -> T {
    Parcel::from_outside(target).enter(&mut Untracked)
}
