//! Bias and GELU: gradient, replay, and composition of Burn's operations.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend};
use lynx_kernels::gelu::Form;

use super::shapes::{shifted, sum_rows};
use super::{Kernels, Optional};

/// Gradients of input and, as a second parent, bias.
#[derive(Debug)]
struct Gelu;

impl<B: Kernels, const N: usize> Backward<B, N> for Gelu {
    /// Input, bias and form.
    type State = (NodeId, Option<NodeId>, Form);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let (x, bias, form) = ops.state;
        let x = checkpointer.retrieve_node_output::<FloatTensor<B>>(x);
        let bias = bias.map(|bias| checkpointer.retrieve_node_output::<FloatTensor<B>>(bias));
        let (dx, dbias) = B::bias_gelu_backward(x, Optional::of(bias), form, gradient);
        let found = [Some(dx), dbias.option()];
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// How Burn's own checkpointing makes the output again.
#[derive(Clone, Debug)]
struct Replay<B> {
    x: NodeId,
    bias: Option<NodeId>,
    form: Form,
    backend: std::marker::PhantomData<B>,
}

impl<B: Kernels> RetroForward for Replay<B> {
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        let bias = self
            .bias
            .map(|bias| states.get_state::<FloatTensor<B>>(&bias));
        states.save(out, B::bias_gelu_forward(x, Optional::of(bias), self.form));
    }
}

/// The operation under autodiff.
pub(super) fn tracked<B: Kernels, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    bias: Option<FloatTensor<Autodiff<B, C>>>,
    form: Form,
) -> FloatTensor<Autodiff<B, C>> {
    let y = B::bias_gelu_forward(
        x.primitive().clone(),
        Optional::of(bias.as_ref().map(|bias| bias.primitive().clone())),
        form,
    );
    match bias {
        Some(bias) => record::<B, C, 2>([x, bias], form, y),
        None => record::<B, C, 1>([x], form, y),
    }
}

fn record<B: Kernels, C: CheckpointStrategy, const N: usize>(
    parents: [FloatTensor<Autodiff<B, C>>; N],
    form: Form,
    y: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let replay = Replay::<B> {
        x: parents[0].id(),
        bias: parents.get(1).map(|bias| bias.id()),
        form,
        backend: std::marker::PhantomData,
    };
    match Gelu
        .prepare::<C>(parents.each_ref().map(|parent| parent.node()))
        .memory_bound()
        .retro_forward(replay)
        .parents(&parents)
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let x = prep.checkpoint(&parents[0]);
            let bias = parents.get(1).map(|bias| prep.checkpoint(bias));
            prep.finish((x, bias, form), y)
        }
        OpsKind::UnTracked(prep) => prep.finish(y),
    }
}

/// Twice the root of 2 over pi, and that times 0.044715: the argument of the logistic function is
/// `LINE x + CUBE x^3`.
const LINE: f64 = 1.595_769_121_605_731;
const CUBE: f64 = 0.071_354_816_272_600_25;

/// The logistic function that the tanh form multiplies by, and `x` squared.
fn logistic<B: Backend>(x: FloatTensor<B>) -> [FloatTensor<B>; 2] {
    let square = B::float_mul(x.clone(), x.clone());
    let inner = B::float_mul_scalar(square.clone(), CUBE.into());
    let inner = B::float_mul(x, B::float_add_scalar(inner, LINE.into()));
    [B::sigmoid(inner), square]
}

/// Forward, composed.
pub(super) fn forward<B: Backend>(
    x: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    form: Form,
) -> FloatTensor<B> {
    let x = shifted::<B>(x, bias);
    match form {
        Form::Erf => B::gelu(x),
        Form::Tanh => {
            let [logistic, _] = logistic::<B>(x.clone());
            B::float_mul(x, logistic)
        }
    }
}

/// Backward, composed.
pub(super) fn backward<B: Backend>(
    x: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    form: Form,
    gradient: FloatTensor<B>,
) -> (FloatTensor<B>, Option<FloatTensor<B>>) {
    let has_bias = bias.is_some();
    let x = shifted::<B>(x, bias);
    let dx = match form {
        Form::Erf => B::gelu_backward(x, gradient),
        Form::Tanh => {
            let [logistic, square] = logistic::<B>(x.clone());
            let slope = B::float_mul_scalar(square, (3.0 * CUBE).into());
            let slope = B::float_mul(x, B::float_add_scalar(slope, LINE.into()));
            let other = B::float_add_scalar(B::float_neg(logistic.clone()), 1f64.into());
            let inner = B::float_mul(B::float_mul(logistic.clone(), other), slope);
            B::float_mul(B::float_add(inner, logistic), gradient)
        }
    };
    let dbias = has_bias.then(|| sum_rows::<B>(dx.clone()));
    (dx, dbias)
}
