//! The operations on tensors.

use burn::backend::Dispatch;
use burn::prelude::*;
use lynx_kernels::gelu::Form;

use super::{Drop, FusedOps, Optional};

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

/// `input weight + bias`. `[..., inputs]`, `[inputs, outputs]` and `[outputs]` to `[..., outputs]`
pub(crate) fn linear<const D: usize>(
    input: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::linear_fused(
        input.into_dispatch(),
        weight.into_dispatch(),
        Optional::of(bias.map(Tensor::into_dispatch)),
    ))
}
