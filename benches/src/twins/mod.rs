//! The functions of a GPT layer, as kernels on slices, as our operations and as Burn's.
//!
//! What is timed by two benchmarks: `kernels`, in turns and with results to keep, and `twins`, each by
//! itself, to be looked at while a kernel is changed. All on the CPU, of one size.

mod attention;
mod pairs;
mod products;
pub mod slices;

pub use attention::attention;
use burn::prelude::*;
use burn::tensor::{Distribution, Gradients};
use lynx_burn::ids::{MicroBatchId, SegmentId};
use lynx_burn::{Context, Mode};
pub use pairs::{cross_entropy, dropout_add, dropout_add_drawn, gelu, layer_norm};
pub use products::product;

/// Sequences of a batch.
pub const BATCH: usize = 8;
/// Positions of a sequence.
pub const SEQ: usize = 256;
/// Rows of the residual stream.
pub const ROWS: usize = BATCH * SEQ;
/// Width of the residual stream.
pub const WIDTH: usize = 256;
/// Heads of attention.
pub const HEADS: usize = 8;
/// Tokens that scores choose among.
pub const CLASSES: usize = 256;
/// The probability of dropping an element.
pub const DROP: f64 = 0.1;

/// A function of one tensor, differentiable.
pub type Function = Box<dyn Fn(Tensor<3>) -> Tensor<3>>;

/// One operation, ours and Burn's.
pub struct Pair {
    /// What a table calls it.
    pub name: String,
    /// The shape of its input.
    pub shape: [usize; 3],
    /// Ours.
    pub ours: Function,
    /// The same of Burn's operations.
    pub burns: Function,
    /// Whether the two draw different random numbers, so that their results cannot be compared.
    pub random: bool,
    /// The parameters, which both sides share.
    pub parameters: Vec<Parameter>,
}

/// A leaf that both functions of a pair use.
pub enum Parameter {
    /// A bias or a scale.
    Vector(Tensor<1>),
    /// A weight.
    Matrix(Tensor<2>),
}

impl Parameter {
    /// What a backward left for it, row by row; nothing if no operation used it.
    #[must_use]
    pub fn gradient(&self, gradients: &Gradients) -> Option<TensorData> {
        match self {
            Self::Vector(tensor) => tensor.grad(gradients).map(Tensor::into_data),
            Self::Matrix(tensor) => tensor.grad(gradients).map(Tensor::into_data),
        }
    }
}

/// The CPU, with autodiff.
#[must_use]
pub fn device() -> Device {
    Device::flex().autodiff()
}

/// Normal random numbers on [`device`].
#[must_use]
pub fn normal<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device())
}

/// `n` numbers between minus one and one and a bit.
#[must_use]
pub fn values(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| (i * 31 % 1009) as f32 / 500.0 - 1.0)
        .collect()
}

/// The same place in the same run each time, so that a mask comes out the same.
fn context() -> Context {
    Context::new(Mode::Training, 1, 2, MicroBatchId(0), SegmentId(0))
}
