//! Cross-entropy: its gradient, and its composition of Burn's operations.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, TensorMetadata};
use burn::tensor::{IndexingUpdateOp, Shape};

use super::Kernels;
use super::notes::noted;
use super::shapes::{as_statistics, like};

/// The gradient of the logits.
#[derive(Debug)]
struct CrossEntropy;

impl<B: Kernels> Backward<B, 1> for CrossEntropy {
    /// Logits, targets and log-sum-exp.
    type State = (NodeId, IntTensor<B>, FloatTensor<B>);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let (logits, targets, lse) = ops.state;
        let logits = checkpointer.retrieve_node_output::<FloatTensor<B>>(logits);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            let found = B::cross_entropy_backward(logits, targets, lse, gradient);
            grads.register::<B>(parent.id, found);
        }
    }
}

/// The operation under autodiff.
pub(super) fn tracked<B: Kernels, C: CheckpointStrategy>(
    logits: FloatTensor<Autodiff<B, C>>,
    targets: IntTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    // The loss itself is one number: it is noted too, and nothing is left to compute.
    let (_, [loss, lse]) = noted(("cross-entropy", logits.primitive()), || {
        let (loss, lse) = B::cross_entropy_forward(logits.primitive().clone(), targets.clone());
        ((), [loss, lse])
    });
    match CrossEntropy
        .prepare::<C>([logits.node()])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let logits = prep.checkpoint(&logits);
            prep.finish((logits, targets, lse), loss)
        }
        OpsKind::UnTracked(prep) => prep.finish(loss),
    }
}

/// For each row, a class to look at, 1 if the row counts and 0 otherwise, and how many do.
/// `[rows, 1]`, `[rows, 1]` and `[1, 1]`
fn counted<B: Backend>(
    logits: &FloatTensor<B>,
    targets: IntTensor<B>,
) -> (IntTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let rows = logits.shape()[0];
    let dtype = logits.dtype().into();
    let targets = B::int_reshape(targets, Shape::from(vec![rows, 1]));
    let classes = B::int_clamp_min(targets.clone(), 0.into());
    // A target of -1 becomes 0, and all others at least 1.
    let counts = B::int_into_float(B::int_add_scalar(targets, 1.into()), dtype);
    let counts = B::float_clamp(counts, 0f64.into(), 1f64.into());
    let count = B::float_sum_dim(counts.clone(), 0);
    (classes, counts, count)
}

/// Forward, composed.
pub(super) fn forward<B: Backend>(
    logits: FloatTensor<B>,
    targets: IntTensor<B>,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let (classes, counts, count) = counted::<B>(&logits, targets);
    let largest = B::float_max_dim(logits.clone(), 1);
    let shifted = B::float_sub(logits.clone(), largest.clone());
    let sum = B::float_sum_dim(B::float_exp(shifted), 1);
    let lse = B::float_add(largest, B::float_log(sum));
    let hit = B::float_gather(1, logits, classes);
    let losses = B::float_mul(B::float_sub(lse.clone(), hit), counts);
    let loss = B::float_div(B::float_sum_dim(losses, 0), count);
    let loss = B::float_reshape(loss, Shape::from(vec![1]));
    (loss, as_statistics::<B>(lse))
}

/// Backward, composed.
pub(super) fn backward<B: Backend>(
    logits: FloatTensor<B>,
    targets: IntTensor<B>,
    lse: FloatTensor<B>,
    gradient: FloatTensor<B>,
) -> FloatTensor<B> {
    let (classes, counts, count) = counted::<B>(&logits, targets);
    let lse = like::<B>(lse, &logits);
    let probabilities = B::float_exp(B::float_sub(logits, lse));
    let minus_one = B::float_neg(counts.clone());
    let probabilities = B::float_mul(probabilities, counts);
    let difference = B::float_scatter(1, probabilities, classes, minus_one, IndexingUpdateOp::Add);
    let gradient = B::float_reshape(gradient, Shape::from(vec![1, 1]));
    B::float_mul(difference, B::float_div(gradient, count))
}
