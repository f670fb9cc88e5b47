//! The device kernels on the tensors of the CubeCL backends: wgpu and CUDA.
//!
//! Burn's and the kernels' tensors are the same handles, so nothing is copied between the two but
//! an operand that is not contiguous. What a kernel does not do takes the composed default; which
//! cases these are is said in one place, [`or_composed`].

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn_cubecl::CubeBackend;
use lynx_kernels::cube::CubeError;
use lynx_kernels::gelu::Form;

use super::{Drop, Kernels, Optional, fused_ops};

mod attention;
mod loss;
mod rows;
mod tensors;

fused_ops!(CubeBackend);

/// What the kernel made or, where there is no kernel for the request, what `composed` makes.
///
/// There is none for elements other than `f32`, `f16` and `bf16`, for elements that the device does not
/// hold, for tensors without elements, for rows and heads that exceed a cube's memory or indices that
/// exceed 32 bits, and for masks of other slices of attention's weights than whole heads. Forward and
/// backward of an operation may be decided differently; their statistics are understood by both.
///
/// # Panics
///
/// If shapes do not fit, as Burn's operations do: modules say so in their documentation.
fn or_composed<T>(
    operation: &'static str,
    made: Result<T, CubeError>,
    composed: impl FnOnce() -> T,
) -> T {
    match made {
        Ok(made) => made,
        Err(
            reason @ (CubeError::DType { .. }
            | CubeError::Unsupported { .. }
            | CubeError::Empty { .. }
            | CubeError::TooLarge { .. }
            | CubeError::Slice { .. }),
        ) => {
            tracing::debug!(operation, %reason, "composed of Burn's operations");
            composed()
        }
        Err(reason) => panic!("{operation}: {reason}"),
    }
}

impl Kernels for CubeBackend {
    fn layer_norm_forward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Optional<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let beta = beta.option();
        let made = rows::layer_norm(&x, &gamma, beta.as_ref(), epsilon);
        or_composed("layer norm", made, || {
            super::layer_norm::forward::<Self>(x, gamma, beta, epsilon)
        })
    }

    fn layer_norm_recompute(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Optional<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let beta = beta.option();
        let made = rows::layer_norm_recompute(&x, &gamma, beta.as_ref(), &mean, &rstd);
        or_composed("layer norm, recomputed", made, || {
            super::layer_norm::recompute::<Self>(x, gamma, beta, mean, rstd)
        })
    }

    fn layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let made = rows::layer_norm_backward(&x, &gamma, &mean, &rstd, &gradient);
        or_composed("layer norm's gradient", made, || {
            super::layer_norm::backward::<Self>(x, gamma, mean, rstd, gradient)
        })
    }

    fn bias_gelu_forward(
        x: FloatTensor<Self>,
        bias: Optional<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        let bias = bias.option();
        let made = rows::bias_gelu(&x, bias.as_ref(), form);
        or_composed("GELU", made, || super::gelu::forward::<Self>(x, bias, form))
    }

    fn bias_gelu_backward(
        x: FloatTensor<Self>,
        bias: Optional<Self>,
        form: Form,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, Optional<Self>) {
        let bias = bias.option();
        let made = rows::bias_gelu_backward(&x, bias.as_ref(), form, &gradient);
        let (dx, dbias) = or_composed("GELU's gradient", made, || {
            super::gelu::backward::<Self>(x, bias, form, gradient)
        });
        (dx, Optional::of(dbias))
    }

    fn dropout_add_forward(
        x: FloatTensor<Self>,
        bias: Optional<Self>,
        residual: Optional<Self>,
        drop: Drop,
    ) -> FloatTensor<Self> {
        let (bias, residual) = (bias.option(), residual.option());
        let made = rows::dropout_add(&x, bias.as_ref(), residual.as_ref(), drop);
        or_composed("dropout", made, || {
            super::dropout_add::forward::<Self>(x, bias, residual, drop)
        })
    }

    fn dropout_add_backward(
        gradient: FloatTensor<Self>,
        with_bias: bool,
        drop: Drop,
    ) -> (FloatTensor<Self>, Optional<Self>) {
        let made = rows::dropout_add_backward(&gradient, with_bias, drop);
        let (dx, dbias) = or_composed("dropout's gradient", made, || {
            super::dropout_add::backward::<Self>(gradient, with_bias, drop)
        });
        (dx, Optional::of(dbias))
    }

    fn attention_forward(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let made = attention::forward(&qkv, heads, drop);
        or_composed("attention", made, || {
            super::attention::forward::<Self>(qkv, heads, drop)
        })
    }

    fn attention_backward(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
        out: FloatTensor<Self>,
        lse: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let made = attention::backward(&qkv, heads, drop, &out, &lse, &gradient);
        or_composed("attention's gradient", made, || {
            super::attention::backward::<Self>(qkv, heads, drop, lse, gradient)
        })
    }

    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let made = loss::forward(&logits, &targets);
        or_composed("cross-entropy", made, || {
            super::cross_entropy::forward::<Self>(logits, targets)
        })
    }

    fn cross_entropy_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        lse: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let made = loss::backward(&logits, &targets, &lse, &gradient);
        or_composed("cross-entropy's gradient", made, || {
            super::cross_entropy::backward::<Self>(logits, targets, lse, gradient)
        })
    }
}
