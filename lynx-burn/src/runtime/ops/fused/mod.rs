//! Operations of a transformer layer that know what to keep: layer norm, GELU, dropout with
//! residual, causal attention, cross-entropy.
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
use burn::backend::{Autodiff, Backend, Dispatch, ExtensionType, backend_extension};
use burn::prelude::*;
use lynx_kernels::gelu::Form;
use lynx_kernels::random::{DropoutMask, KeepProbability, RowSlice, StreamKey};

mod attention;
mod cross_entropy;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod cube;
mod dropout_add;
#[cfg(feature = "flex")]
mod flex;
mod gelu;
mod layer_norm;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "remote")]
mod remote;
mod shapes;
#[cfg(all(test, feature = "flex"))]
mod tests;

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

/// Kernels on a backend's tensors, without gradients. The defaults serve every backend.
///
/// Shapes are the caller's to check; a kernel may panic where they do not fit. Statistics of rows (mean,
/// deviation, log-sum-exp) are 32-bit floats, whatever the elements are; of 64-bit ones, 64-bit.
///
/// Under Burn's fusion each is one operation that fusion does not look into: it is queued with the
/// shapes that `lazy` foretells.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(any(feature = "wgpu", feature = "cuda")),
    Remote: cfg(feature = "remote"),
    Fusion: cfg(feature = "fusion"),
)]
pub trait Kernels: Backend {
    /// The norm of the last axis, `[..., width]`, and mean and `1 / deviation`, `[..., 1]`.
    #[fusion(meta = lazy::layer_norm)]
    fn layer_norm_forward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        #[extension_type] beta: Optional<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        layer_norm::forward::<Self>(x, gamma, beta.option(), epsilon)
    }

    /// The first of what forward returned, from the other two.
    #[fusion(dtype = x, shape = x)]
    fn layer_norm_recompute(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        #[extension_type] beta: Optional<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        layer_norm::recompute::<Self>(x, gamma, beta.option(), mean, rstd)
    }

    /// Gradients of input, gamma and beta.
    #[fusion(meta = lazy::layer_norm_gradients)]
    fn layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        layer_norm::backward::<Self>(x, gamma, mean, rstd, gradient)
    }

    /// `gelu(x + bias)`; the bias is as wide as the last axis.
    #[fusion(dtype = x, shape = x)]
    fn bias_gelu_forward(
        x: FloatTensor<Self>,
        #[extension_type] bias: Optional<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        gelu::forward::<Self>(x, bias.option(), form)
    }

    /// Gradients of input and, if there is one, bias.
    #[fusion(meta = lazy::bias_gelu_gradients)]
    fn bias_gelu_backward(
        x: FloatTensor<Self>,
        #[extension_type] bias: Optional<Self>,
        form: Form,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, Optional<Self>) {
        let (dx, dbias) = gelu::backward::<Self>(x, bias.option(), form, gradient);
        (dx, Optional::of(dbias))
    }

    /// `residual + mask * (x + bias)`.
    #[fusion(dtype = x, shape = x)]
    fn dropout_add_forward(
        x: FloatTensor<Self>,
        #[extension_type] bias: Optional<Self>,
        #[extension_type] residual: Optional<Self>,
        drop: Drop,
    ) -> FloatTensor<Self> {
        dropout_add::forward::<Self>(x, bias.option(), residual.option(), drop)
    }

    /// Gradients of input and, if asked for, bias.
    #[fusion(meta = lazy::dropout_add_gradients)]
    fn dropout_add_backward(
        gradient: FloatTensor<Self>,
        with_bias: bool,
        drop: Drop,
    ) -> (FloatTensor<Self>, Optional<Self>) {
        let (dx, dbias) = dropout_add::backward::<Self>(gradient, with_bias, drop);
        (dx, Optional::of(dbias))
    }

    /// Mixed values, `[batch, seq, d_model]`, and log-sum-exp of the scores, `[batch, heads, seq]`,
    /// of queries, keys and values side by side, `[batch, seq, 3 * d_model]`.
    #[fusion(meta = lazy::attention)]
    fn attention_forward(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        attention::forward::<Self>(qkv, heads, drop)
    }

    /// The gradient of `qkv`.
    #[fusion(dtype = qkv, shape = qkv)]
    fn attention_backward(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
        out: FloatTensor<Self>,
        lse: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let _ = out;
        attention::backward::<Self>(qkv, heads, drop, lse, gradient)
    }

    /// The mean loss, `[1]`, and the log-sum-exp of each row, `[rows, 1]`. Rows with a target of
    /// -1 do not count.
    #[fusion(meta = lazy::cross_entropy)]
    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        cross_entropy::forward::<Self>(logits, targets)
    }

    /// The gradient of the logits.
    #[fusion(dtype = logits, shape = logits)]
    fn cross_entropy_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        lse: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        cross_entropy::backward::<Self>(logits, targets, lse, gradient)
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
}

/// Layer norm over the last axis. `[..., width]`
pub(crate) fn layer_norm<const D: usize>(
    input: Tensor<D>,
    gamma: Tensor<1>,
    beta: Option<Tensor<1>>,
    epsilon: f64,
) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::layer_norm_fused(
        input.into_dispatch(),
        gamma.into_dispatch(),
        Optional::of(beta.map(Tensor::into_dispatch)),
        epsilon,
    ))
}

/// `gelu(input + bias)`. `[..., width]`
pub(crate) fn bias_gelu<const D: usize>(
    input: Tensor<D>,
    bias: Option<Tensor<1>>,
    form: Form,
) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::bias_gelu(
        input.into_dispatch(),
        Optional::of(bias.map(Tensor::into_dispatch)),
        form,
    ))
}

/// `residual + mask * (input + bias)`. `[..., width]`
pub(crate) fn dropout_add<const D: usize>(
    input: Tensor<D>,
    bias: Option<Tensor<1>>,
    residual: Option<Tensor<D>>,
    drop: Drop,
) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::dropout_add(
        input.into_dispatch(),
        Optional::of(bias.map(Tensor::into_dispatch)),
        Optional::of(residual.map(Tensor::into_dispatch)),
        drop,
    ))
}

/// Causal attention. `[batch, seq, 3 * d_model]` to `[batch, seq, d_model]`
pub(crate) fn causal_attention(qkv: Tensor<3>, heads: usize, drop: Option<Drop>) -> Tensor<3> {
    Tensor::from_dispatch(Dispatch::causal_attention(qkv.into_dispatch(), heads, drop))
}

/// Mean cross-entropy. `[rows, classes]` and `[rows]` to `[1]`
pub(crate) fn cross_entropy(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::cross_entropy_fused(
        logits.into_dispatch(),
        targets.into_dispatch(),
    ))
}
