//! The gradients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};
use lynx_kernels::random::{KeepProbability, StreamKey};

use super::{RecomputeOps, mask_like};

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

    fn segment_join(output: FloatTensor<Self>, other: FloatTensor<Self>) -> FloatTensor<Self> {
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

        let nodes = [output.node(), other.node()];
        let other = other.into_primitive();
        match Join.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((), other),
            OpsKind::UnTracked(prep) => prep.finish(other),
        }
    }

    fn segment_leave(output: FloatTensor<Self>, after: FloatTensor<Self>) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Leave;

        impl<B: Backend> Backward<B, 2> for Leave {
            type State = ();

            fn backward(
                self,
                ops: Ops<Self::State, 2>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let [output, _after] = ops.parents;
                unary::<B, _>([output], ops.node, grads, |gradient| gradient);
            }
        }

        let nodes = [output.node(), after.node()];
        let after = after.into_primitive();
        match Leave.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((), after),
            OpsKind::UnTracked(prep) => prep.finish(after),
        }
    }

    fn segment_seed(
        stub: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        next: FloatTensor<Self>,
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
                // `next` needs no gradient to go on from: it is another seed.
                let [stub, _next] = ops.parents;
                if let Some(stub) = stub {
                    grads.register::<B>(stub.id, ops.state);
                }
            }
        }

        let nodes = [stub.node(), next.node()];
        let gradient = gradient.into_primitive();
        let next = next.into_primitive();
        match Seed.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(gradient, next),
            OpsKind::UnTracked(prep) => prep.finish(next),
        }
    }

    fn segment_identity(input: FloatTensor<Self>, id: Arc<AtomicU64>) -> FloatTensor<Self> {
        id.store(input.id().value, Ordering::Relaxed);
        input
    }

    fn keyed_dropout(
        input: FloatTensor<Self>,
        key: StreamKey,
        keep: KeepProbability,
    ) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Dropout;

        impl<B: Backend> Backward<B, 1> for Dropout {
            type State = (StreamKey, KeepProbability);

            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let (key, keep) = ops.state;
                unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
                    let mask = mask_like::<B>(&gradient, key, keep);
                    B::float_mul(gradient, mask)
                });
            }
        }

        let (input, node) = input.into_parts();
        let output = B::keyed_dropout(input, key, keep);
        match Dropout.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((key, keep), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }
}
