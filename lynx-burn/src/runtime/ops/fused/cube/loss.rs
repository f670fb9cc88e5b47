//! Cross-entropy. The kernels know rows; their mean is a handful of operations on one number a row.

use burn::backend::TensorMetadata;
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::tensor::{FloatDType, Shape};
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use lynx_kernels::cube::CubeError;
use lynx_kernels::cube::cross_entropy::{cross_entropy, cross_entropy_backward};

use super::super::shapes::{like, one_a_row};
use super::tensors::{Home, read, read_flat};

/// How many rows have a target. `[1]`, `f32`, which counts exactly up to 2^24
fn count(targets: &CubeTensor) -> CubeTensor {
    // A target of -1 becomes 0, and all others at least 1.
    let counts = CubeBackend::int_add_scalar(targets.clone(), 1.into());
    let counts = CubeBackend::int_into_float(counts, FloatDType::F32);
    CubeBackend::float_sum(CubeBackend::float_clamp(counts, 0f64.into(), 1f64.into()))
}

/// The mean loss, `[1]`, and log-sum-exps, `[rows, 1]`.
pub(super) fn forward(
    logits: &CubeTensor,
    targets: &CubeTensor,
) -> Result<(CubeTensor, CubeTensor), CubeError> {
    let home = Home::of(logits);
    let made = cross_entropy(&home.client, &read(logits), &read(targets))?;
    let losses = home.statistics(made.loss, targets.shape());
    let loss = CubeBackend::float_div(CubeBackend::float_sum(losses), count(targets));
    let lse = home.statistics(made.log_sum_exp, one_a_row(&logits.shape()));
    Ok((like::<CubeBackend>(loss, logits), lse))
}

/// The gradient of the logits, from that of the mean.
pub(super) fn backward(
    logits: &CubeTensor,
    targets: &CubeTensor,
    lse: &CubeTensor,
    gradient: &CubeTensor,
) -> Result<CubeTensor, CubeError> {
    let home = Home::of(logits);
    let gradient = CubeBackend::float_cast(gradient.clone(), FloatDType::F32);
    let each = CubeBackend::float_div(gradient, count(targets));
    let each = CubeBackend::float_expand(each, Shape::from(targets.shape().to_vec()));
    let (logits_read, targets) = (read(logits), read(targets));
    let (lse, each) = (read_flat(lse), read(&each));
    let made = cross_entropy_backward(&home.client, &logits_read, &targets, &lse, &each)?;
    Ok(home.made(made, logits))
}
