//! Dropout with bias and residual: gradient, replay, and composition of Burn's operations.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::{Device, FloatTensor};
use burn::backend::{Autodiff, Backend, TensorMetadata};
use burn::tensor::{DType, Shape, TensorData};

use super::shapes::{shifted, sum_rows};
use super::{Drop, Kernels, Optional};

/// Which parents follow the input.
#[derive(Clone, Copy, Debug)]
struct Others {
    bias: bool,
    residual: bool,
}

/// Gradients of input, bias and residual, the last two if they are there. It keeps no tensor.
#[derive(Debug)]
struct DropoutAdd;

impl<B: Kernels, const N: usize> Backward<B, N> for DropoutAdd {
    type State = (Drop, Others);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let (drop, others) = ops.state;
        let residual = others.residual.then(|| gradient.clone());
        let (dx, dbias) = B::dropout_add_backward(gradient, others.bias, drop);
        let found = [Some(dx), dbias.option(), residual].into_iter().flatten();
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// How Burn's own checkpointing makes the output again.
#[derive(Clone, Debug)]
struct Replay<B> {
    parents: Vec<NodeId>,
    drop: Drop,
    others: Others,
    backend: std::marker::PhantomData<B>,
}

impl<B: Kernels> RetroForward for Replay<B> {
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        let mut parents = self
            .parents
            .iter()
            .map(|id| states.get_state::<FloatTensor<B>>(id))
            .collect::<Vec<_>>()
            .into_iter();
        let Some(x) = parents.next() else {
            return;
        };
        let bias = self.others.bias.then(|| parents.next()).flatten();
        let (bias, residual) = (Optional::of(bias), Optional::of(parents.next()));
        let y = B::dropout_add_forward(x, bias, residual, self.drop);
        states.save(out, y);
    }
}

/// The operation under autodiff.
pub(super) fn tracked<B: Kernels, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    bias: Option<FloatTensor<Autodiff<B, C>>>,
    residual: Option<FloatTensor<Autodiff<B, C>>>,
    drop: Drop,
) -> FloatTensor<Autodiff<B, C>> {
    let y = B::dropout_add_forward(
        x.primitive().clone(),
        Optional::of(bias.as_ref().map(|bias| bias.primitive().clone())),
        Optional::of(residual.as_ref().map(|it| it.primitive().clone())),
        drop,
    );
    let others = Others {
        bias: bias.is_some(),
        residual: residual.is_some(),
    };
    let what = (drop, others);
    match (bias, residual) {
        (Some(bias), Some(residual)) => record::<B, C, 3>([x, bias, residual], what, y),
        (Some(other), None) | (None, Some(other)) => record::<B, C, 2>([x, other], what, y),
        (None, None) => record::<B, C, 1>([x], what, y),
    }
}

fn record<B: Kernels, C: CheckpointStrategy, const N: usize>(
    parents: [FloatTensor<Autodiff<B, C>>; N],
    what: (Drop, Others),
    y: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let replay = Replay::<B> {
        parents: parents.iter().map(|parent| parent.id()).collect(),
        drop: what.0,
        others: what.1,
        backend: std::marker::PhantomData,
    };
    match DropoutAdd
        .prepare::<C>(parents.each_ref().map(|parent| parent.node()))
        .memory_bound()
        .retro_forward(replay)
        .parents(&parents)
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish(what, y),
        OpsKind::UnTracked(prep) => prep.finish(y),
    }
}

/// A mask, built on the host.
pub(super) fn mask<B: Backend>(
    shape: Shape,
    dtype: DType,
    device: &Device<B>,
    drop: Drop,
) -> FloatTensor<B> {
    let mut mask = vec![0f32; shape.num_elements()];
    drop.mask().fill(&mut mask);
    B::float_from_data(TensorData::new(mask, shape).convert_dtype(dtype), device)
}

/// Forward, composed.
pub(super) fn forward<B: Backend>(
    x: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    residual: Option<FloatTensor<B>>,
    drop: Drop,
) -> FloatTensor<B> {
    let mask = mask::<B>(x.shape(), x.dtype(), &x.device(), drop);
    let dropped = B::float_mul(shifted::<B>(x, bias), mask);
    match residual {
        Some(residual) => B::float_add(dropped, residual),
        None => dropped,
    }
}

/// Backward, composed.
pub(super) fn backward<B: Backend>(
    gradient: FloatTensor<B>,
    with_bias: bool,
    drop: Drop,
) -> (FloatTensor<B>, Option<FloatTensor<B>>) {
    let mask = mask::<B>(gradient.shape(), gradient.dtype(), &gradient.device(), drop);
    let dx = B::float_mul(gradient, mask);
    let dbias = with_bias.then(|| sum_rows::<B>(dx.clone()));
    (dx, dbias)
}
