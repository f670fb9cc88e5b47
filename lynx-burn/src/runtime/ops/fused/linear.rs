//! The product with a weight: its gradient. Forward and backward composed are Burn's own.
//!
//! Like Burn's, and of its own only so that a backend's kernels serve both ways.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

use super::{Kernels, Optional};

/// Gradients of input, weight and, as a third parent, bias.
#[derive(Debug)]
struct Linear;

impl<B: Kernels, const N: usize> Backward<B, N> for Linear {
    /// Input and weight, each if the other's gradient is wanted.
    type State = (Option<NodeId>, Option<NodeId>);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let [x, weight] = <[_; 2]>::from(ops.state)
            .map(|id| id.map(|id| checkpointer.retrieve_node_output::<FloatTensor<B>>(id)));
        let mut parents = ops.parents.into_iter();
        let mut next = || parents.next().flatten();
        if let (Some(parent), Some(weight)) = (next(), weight) {
            let dx = B::linear_input_gradient(weight, gradient.clone());
            grads.register::<B>(parent.id, dx);
        }
        if let (Some(parent), Some(x)) = (next(), x) {
            let dw = B::linear_weight_gradient(x, gradient.clone());
            grads.register::<B>(parent.id, dw);
        }
        if let Some(parent) = next() {
            grads.register::<B>(parent.id, B::linear_bias_gradient(gradient));
        }
    }
}

/// The operation under autodiff.
pub(super) fn tracked<B: Kernels, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    weight: FloatTensor<Autodiff<B, C>>,
    bias: Option<FloatTensor<Autodiff<B, C>>>,
) -> FloatTensor<Autodiff<B, C>> {
    let y = B::linear_forward(
        x.primitive().clone(),
        weight.primitive().clone(),
        Optional::of(bias.as_ref().map(|bias| bias.primitive().clone())),
    );
    match bias {
        Some(bias) => record::<B, C, 3>([x, weight, bias], y),
        None => record::<B, C, 2>([x, weight], y),
    }
}

fn record<B: Kernels, C: CheckpointStrategy, const N: usize>(
    parents: [FloatTensor<Autodiff<B, C>>; N],
    y: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    match Linear
        .prepare::<C>(parents.each_ref().map(|parent| parent.node()))
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let [x_tracked, weight_tracked] = [0, 1].map(|i: usize| parents[i].is_tracked());
            let x = weight_tracked.then(|| prep.checkpoint(&parents[0]));
            let weight = x_tracked.then(|| prep.checkpoint(&parents[1]));
            prep.finish((x, weight), y)
        }
        OpsKind::UnTracked(prep) => prep.finish(y),
    }
}
