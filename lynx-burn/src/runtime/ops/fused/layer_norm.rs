//! Layer norm: its gradient, its replay, and its composition of Burn's operations.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, TensorMetadata};

use super::notes::noted;
use super::shapes::{as_last_axis, as_statistics, like, shifted, sum_rows};
use super::{Kernels, Optional};

/// Gradients of input, gamma and, as a third parent, beta.
#[derive(Debug)]
struct LayerNorm;

impl<B: Kernels, const N: usize> Backward<B, N> for LayerNorm {
    /// Input, gamma, mean and rstd.
    type State = (NodeId, NodeId, FloatTensor<B>, FloatTensor<B>);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let (x, gamma, mean, rstd) = ops.state;
        let x = checkpointer.retrieve_node_output::<FloatTensor<B>>(x);
        let gamma = checkpointer.retrieve_node_output::<FloatTensor<B>>(gamma);
        let found: [_; 3] = B::layer_norm_backward(x, gamma, mean, rstd, gradient).into();
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// How Burn's own checkpointing makes the output again.
#[derive(Clone, Debug)]
struct Replay<B: Kernels> {
    x: NodeId,
    gamma: NodeId,
    beta: Option<NodeId>,
    mean: FloatTensor<B>,
    rstd: FloatTensor<B>,
}

impl<B: Kernels> RetroForward for Replay<B> {
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        let gamma = states.get_state::<FloatTensor<B>>(&self.gamma);
        let beta = self
            .beta
            .map(|beta| states.get_state::<FloatTensor<B>>(&beta));
        let (beta, mean, rstd) = (Optional::of(beta), self.mean.clone(), self.rstd.clone());
        let y = B::layer_norm_recompute(x, gamma, beta, mean, rstd);
        states.save(out, y);
    }
}

/// The operation under autodiff.
pub(super) fn tracked<B: Kernels, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    gamma: FloatTensor<Autodiff<B, C>>,
    beta: Option<FloatTensor<Autodiff<B, C>>>,
    epsilon: f64,
) -> FloatTensor<Autodiff<B, C>> {
    let read = || {
        let beta = beta.as_ref().map(|beta| beta.primitive().clone());
        let (x, gamma) = (x.primitive().clone(), gamma.primitive().clone());
        (x, gamma, Optional::of(beta))
    };
    let (found, [mean, rstd]) = noted(("layer norm", x.primitive()), || {
        let (x, gamma, beta) = read();
        let (y, mean, rstd) = B::layer_norm_forward(x, gamma, beta, epsilon);
        (y, [mean, rstd])
    });
    let y = found.unwrap_or_else(|| {
        let (x, gamma, beta) = read();
        B::layer_norm_recompute(x, gamma, beta, mean.clone(), rstd.clone())
    });
    match beta {
        Some(beta) => record::<B, C, 3>([x, gamma, beta], y, mean, rstd),
        None => record::<B, C, 2>([x, gamma], y, mean, rstd),
    }
}

fn record<B: Kernels, C: CheckpointStrategy, const N: usize>(
    parents: [FloatTensor<Autodiff<B, C>>; N],
    y: FloatTensor<B>,
    mean: FloatTensor<B>,
    rstd: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let replay = Replay::<B> {
        x: parents[0].id(),
        gamma: parents[1].id(),
        beta: parents.get(2).map(|beta| beta.id()),
        mean: mean.clone(),
        rstd: rstd.clone(),
    };
    match LayerNorm
        .prepare::<C>(parents.each_ref().map(|parent| parent.node()))
        .memory_bound()
        .retro_forward(replay)
        .parents(&parents)
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let x = prep.checkpoint(&parents[0]);
            let gamma = prep.checkpoint(&parents[1]);
            prep.finish((x, gamma, mean, rstd), y)
        }
        OpsKind::UnTracked(prep) => prep.finish(y),
    }
}

/// Forward, composed.
pub(super) fn forward<B: Backend>(
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    beta: Option<FloatTensor<B>>,
    epsilon: f64,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let last = x.shape().num_dims() - 1;
    let mean = B::float_mean_dim(x.clone(), last);
    let centred = B::float_sub(x.clone(), mean.clone());
    let variance = B::float_mean_dim(B::float_mul(centred.clone(), centred), last);
    let rstd = B::float_recip(B::float_sqrt(B::float_add_scalar(variance, epsilon.into())));
    let y = recompute::<B>(x, gamma, beta, mean.clone(), rstd.clone());
    (y, as_statistics::<B>(mean), as_statistics::<B>(rstd))
}

/// Recompute, composed.
pub(super) fn recompute<B: Backend>(
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    beta: Option<FloatTensor<B>>,
    mean: FloatTensor<B>,
    rstd: FloatTensor<B>,
) -> FloatTensor<B> {
    let dimensions = x.shape().num_dims();
    let [mean, rstd] = [mean, rstd].map(|it| like::<B>(it, &x));
    let norm = B::float_mul(B::float_sub(x, mean), rstd);
    let scaled = B::float_mul(norm, as_last_axis::<B>(gamma, dimensions));
    shifted::<B>(scaled, beta)
}

/// Backward, composed.
pub(super) fn backward<B: Backend>(
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    mean: FloatTensor<B>,
    rstd: FloatTensor<B>,
    gradient: FloatTensor<B>,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let dimensions = x.shape().num_dims();
    let [mean, rstd] = [mean, rstd].map(|it| like::<B>(it, &x));
    let last = dimensions - 1;
    let norm = B::float_mul(B::float_sub(x, mean), rstd.clone());
    let dgamma = sum_rows::<B>(B::float_mul(gradient.clone(), norm.clone()));
    let dbeta = sum_rows::<B>(gradient.clone());
    let dnorm = B::float_mul(gradient, as_last_axis::<B>(gamma, dimensions));
    let average = B::float_mean_dim(dnorm.clone(), last);
    let along = B::float_mean_dim(B::float_mul(dnorm.clone(), norm.clone()), last);
    let rest = B::float_sub(B::float_sub(dnorm, average), B::float_mul(norm, along));
    (B::float_mul(rest, rstd), dgamma, dbeta)
}
