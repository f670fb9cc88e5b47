//! Operations of a transformer layer that know what to keep: layer norm, GELU, dropout with
//! residual, causal attention, cross-entropy; and products with weights.
//!
//! Composed of Burn's operations, each of them is many passes over memory and keeps what every pass
//! read. Here each is one operation with a gradient of its own, which keeps what cannot be made
//! again cheaply: a layer norm its input, mean and deviation, attention its input, output and
//! log-sum-exp, dropout nothing but a key.
//!
//! Two traits, because gradients are the same for every backend and kernels are not:
//!
//! - [`FusedOps`] is what a model calls, and can be differentiated; one file an operation has its
//!   gradient;
//! - [`Kernels`] are forward and backward on a backend's own tensors. Each has a default composed of
//!   the backend's operations; Flex runs the CPU kernels of `lynx-kernels` on `f32`, the CubeCL
//!   backends its device kernels on `f32`, `f16` and `bf16`.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, ExtensionType, backend_extension};
#[cfg(feature = "fusion")]
use burn::tensor::Shape;
use lynx_kernels::gelu::Form;
use lynx_kernels::random::{DropoutMask, KeepProbability, RowSlice, StreamKey};

mod attention;
mod calls;
mod cross_entropy;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod cube;
mod dropout_add;
#[cfg(feature = "flex")]
mod flex;
mod gelu;
mod kernels;
mod layer_norm;
#[cfg(feature = "fusion")]
mod lazy;
mod linear;
pub(crate) mod notes;
#[cfg(feature = "remote")]
mod remote;
mod shapes;
#[cfg(all(test, feature = "flex"))]
mod tests;

pub(crate) use calls::{
    bias_gelu, causal_attention, cross_entropy, dropout_add, layer_norm, linear,
};
pub use kernels::Kernels;

/// What names a dropout mask, and how much of it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drop {
    /// The stream of random numbers.
    pub key: StreamKey,
    /// Probability of keeping an element.
    pub keep: KeepProbability,
    /// Which part of a larger tensor's mask it is, if it is one.
    pub slice: Option<RowSlice>,
}

impl Drop {
    /// The mask itself.
    fn mask(self) -> DropoutMask {
        let mask = DropoutMask::new(self.key, self.keep);
        match self.slice {
            Some(slice) => mask.of(slice),
            None => mask,
        }
    }
}

/// A tensor that need not be there: Burn's extension macro carries derived types, and no options.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub enum Optional<B: Backend> {
    /// No tensor.
    Absent,
    /// A tensor.
    Present(FloatTensor<B>),
}

impl<B: Backend> Optional<B> {
    fn of(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::Absent, Self::Present)
    }

    fn option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Absent => None,
            Self::Present(tensor) => Some(tensor),
        }
    }
}

/// The operations, differentiable on a backend with autodiff.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(any(feature = "wgpu", feature = "cuda")),
    Remote: cfg(feature = "remote"),
    Fusion: cfg(feature = "fusion"),
    Autodiff,
)]
pub trait FusedOps: Backend {
    /// Layer norm over the last axis.
    #[fusion(dtype = x, shape = x)]
    fn layer_norm_fused(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        #[extension_type] beta: Optional<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self>;

    /// `gelu(x + bias)`.
    #[fusion(dtype = x, shape = x)]
    fn bias_gelu(
        x: FloatTensor<Self>,
        #[extension_type] bias: Optional<Self>,
        form: Form,
    ) -> FloatTensor<Self>;

    /// `residual + mask * (x + bias)`.
    #[fusion(dtype = x, shape = x)]
    fn dropout_add(
        x: FloatTensor<Self>,
        #[extension_type] bias: Optional<Self>,
        #[extension_type] residual: Optional<Self>,
        drop: Drop,
    ) -> FloatTensor<Self>;

    /// Causal attention of all heads.
    #[fusion(dtype = qkv, shape = lazy::mixed(qkv))]
    fn causal_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
    ) -> FloatTensor<Self>;

    /// Mean cross-entropy over the rows whose target is not -1.
    #[fusion(dtype = logits, shape = Shape::from([1]))]
    fn cross_entropy_fused(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
    ) -> FloatTensor<Self>;

    /// `x weight + bias`.
    #[fusion(default)]
    fn linear_fused(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Optional<Self>,
    ) -> FloatTensor<Self> {
        Self::linear(x, weight, bias.option())
    }
}

/// What a backend with kernels does without autodiff.
macro_rules! fused_ops {
    ($backend:ty) => {
        impl crate::runtime::ops::FusedOps for $backend {
            fn layer_norm_fused(
                x: FloatTensor<Self>,
                gamma: FloatTensor<Self>,
                beta: Optional<Self>,
                epsilon: f64,
            ) -> FloatTensor<Self> {
                Self::layer_norm_forward(x, gamma, beta, epsilon).0
            }

            fn bias_gelu(
                x: FloatTensor<Self>,
                bias: Optional<Self>,
                form: Form,
            ) -> FloatTensor<Self> {
                Self::bias_gelu_forward(x, bias, form)
            }

            fn dropout_add(
                x: FloatTensor<Self>,
                bias: Optional<Self>,
                residual: Optional<Self>,
                drop: Drop,
            ) -> FloatTensor<Self> {
                Self::dropout_add_forward(x, bias, residual, drop)
            }

            fn causal_attention(
                qkv: FloatTensor<Self>,
                heads: usize,
                drop: Option<Drop>,
            ) -> FloatTensor<Self> {
                Self::attention_forward(qkv, heads, drop).0
            }

            fn cross_entropy_fused(
                logits: FloatTensor<Self>,
                targets: IntTensor<Self>,
            ) -> FloatTensor<Self> {
                Self::cross_entropy_forward(logits, targets).0
            }

            fn linear_fused(
                x: FloatTensor<Self>,
                weight: FloatTensor<Self>,
                bias: Optional<Self>,
            ) -> FloatTensor<Self> {
                Self::linear_forward(x, weight, bias)
            }
        }
    };
}
pub(super) use fused_ops;

impl<B: Kernels, C: CheckpointStrategy> FusedOps for Autodiff<B, C> {
    fn layer_norm_fused(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Optional<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        layer_norm::tracked::<B, C>(x, gamma, beta.option(), epsilon)
    }

    fn bias_gelu(x: FloatTensor<Self>, bias: Optional<Self>, form: Form) -> FloatTensor<Self> {
        gelu::tracked::<B, C>(x, bias.option(), form)
    }

    fn dropout_add(
        x: FloatTensor<Self>,
        bias: Optional<Self>,
        residual: Optional<Self>,
        drop: Drop,
    ) -> FloatTensor<Self> {
        dropout_add::tracked::<B, C>(x, bias.option(), residual.option(), drop)
    }

    fn causal_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
    ) -> FloatTensor<Self> {
        attention::tracked::<B, C>(qkv, heads, drop)
    }

    fn cross_entropy_fused(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
    ) -> FloatTensor<Self> {
        cross_entropy::tracked::<B, C>(logits, targets)
    }

    fn linear_fused(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Optional<Self>,
    ) -> FloatTensor<Self> {
        linear::tracked::<B, C>(x, weight, bias.option())
    }
}
