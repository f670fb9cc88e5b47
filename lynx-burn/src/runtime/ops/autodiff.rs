//! The gradients.

use std::sync::PoisonError;

use super::{PlaceSlot, RecomputeOps};
use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, NodeGuard, Ops, OpsKind, unary},
};
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

impl<B: RecomputeOps, C: CheckpointStrategy> RecomputeOps for Autodiff<B, C> {
    fn segment_enter(input: FloatTensor<Self>, anchor: FloatTensor<Self>) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Enter;

        impl<B: Backend> Backward<B, 1> for Enter {
            type State = ();

            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                // The anchor has one element, its gradient the shape of the input: Burn stores
                // what it is given, and the anchor is read by nothing else.
                unary::<B, _>(ops.parents, ops.node, grads, |gradient| gradient);
            }
        }

        let node = anchor.node();
        let input = input.into_primitive();
        match Enter.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((), input),
            OpsKind::UnTracked(prep) => prep.finish(input),
        }
    }

    fn segment_hold(output: FloatTensor<Self>, place: PlaceSlot) -> FloatTensor<Self> {
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(output.node());
        output
    }

    fn segment_join(token: FloatTensor<Self>, place: NodeGuard) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Join;

        impl<B: Backend> Backward<B, 2> for Join {
            type State = ();

            fn backward(
                self,
                _ops: Ops<Self::State, 2>,
                _grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                // A join is there for its depth; no gradient passes through it.
            }
        }

        let (token, node) = token.into_parts();
        match Join.prepare::<C>([place, node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((), token),
            OpsKind::UnTracked(prep) => prep.finish(token),
        }
    }

    fn segment_seed(
        token: FloatTensor<Self>,
        place: NodeGuard,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Seed;

        impl<B: Backend> Backward<B, 2> for Seed {
            type State = FloatTensor<B>;

            fn backward(
                self,
                ops: Ops<Self::State, 2>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                // The token's own parent is a join or another seed: neither needs a gradient.
                let [place, _token] = ops.parents;
                if let Some(place) = place {
                    grads.register::<B>(place.id, ops.state);
                }
            }
        }

        let (token, node) = token.into_parts();
        let gradient = gradient.into_primitive();
        match Seed.prepare::<C>([place, node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(gradient, token),
            OpsKind::UnTracked(prep) => prep.finish(token),
        }
    }
}
