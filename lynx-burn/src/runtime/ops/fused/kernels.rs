//! What a backend computes, without gradients.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use lynx_kernels::gelu::Form;

#[cfg(feature = "fusion")]
use super::lazy;
use super::{Drop, Optional, attention, cross_entropy, dropout_add, gelu, layer_norm};

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

    /// The first of what forward returned, from the other.
    #[fusion(dtype = qkv, shape = lazy::mixed(qkv))]
    fn attention_recompute(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
        lse: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        // Forwards that find the log-sum-exps on the way have other roundings without them.
        let _ = lse;
        Self::attention_forward(qkv, heads, drop).0
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

    /// `x weight + bias`, `[..., inputs]` to `[..., outputs]`.
    ///
    /// Only the CPU has kernels for products: elsewhere they are Burn's, whose fusion looks into them.
    #[fusion(default)]
    fn linear_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Optional<Self>,
    ) -> FloatTensor<Self> {
        Self::linear(x, weight, bias.option())
    }

    /// The gradient of `x`.
    #[fusion(default)]
    fn linear_input_gradient(
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::linear_x_backward(weight, gradient)
    }

    /// The gradient of the weight.
    #[fusion(default)]
    fn linear_weight_gradient(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::linear_weight_backward(x, gradient)
    }

    /// The gradient of the bias.
    #[fusion(default)]
    fn linear_bias_gradient(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::linear_bias_backward(gradient)
    }
}
