//! What works on rows: layer norm, GELU, dropout.

use burn::backend::TensorMetadata;
use burn_cubecl::tensor::CubeTensor;
use lynx_kernels::cube::{CubeError, dropout_add as add, gelu, layer_norm as norm};
use lynx_kernels::gelu::Form;

use super::super::Drop;
use super::super::shapes::one_a_row;
use super::tensors::{Home, read, read_flat, read_optional};

pub(super) fn layer_norm(
    x: &CubeTensor,
    gamma: &CubeTensor,
    beta: Option<&CubeTensor>,
    epsilon: f64,
) -> Result<(CubeTensor, CubeTensor, CubeTensor), CubeError> {
    let home = Home::of(x);
    let made = norm::layer_norm(
        &home.client,
        &read(x),
        &read(gamma),
        read_optional(beta).as_ref(),
        epsilon as f32,
    )?;
    let statistics = one_a_row(&x.shape());
    Ok((
        home.made(made.output, x),
        home.statistics(made.mean, statistics.clone()),
        home.statistics(made.rstd, statistics),
    ))
}

pub(super) fn layer_norm_recompute(
    x: &CubeTensor,
    gamma: &CubeTensor,
    beta: Option<&CubeTensor>,
    mean: &CubeTensor,
    rstd: &CubeTensor,
) -> Result<CubeTensor, CubeError> {
    let home = Home::of(x);
    let made = norm::layer_norm_recompute(
        &home.client,
        &read(x),
        &read(gamma),
        read_optional(beta).as_ref(),
        &read_flat(mean),
        &read_flat(rstd),
    )?;
    Ok(home.made(made, x))
}

/// Gradients of input, gamma and beta.
pub(super) fn layer_norm_backward(
    x: &CubeTensor,
    gamma: &CubeTensor,
    mean: &CubeTensor,
    rstd: &CubeTensor,
    gradient: &CubeTensor,
) -> Result<(CubeTensor, CubeTensor, CubeTensor), CubeError> {
    let home = Home::of(x);
    let made = norm::layer_norm_backward(
        &home.client,
        &read(gradient),
        &read(x),
        &read(gamma),
        &read_flat(mean),
        &read_flat(rstd),
    )?;
    let gradients = [made.input, made.gamma, made.beta];
    Ok(gradients.map(|made| home.made(made, x)).into())
}

pub(super) fn bias_gelu(
    x: &CubeTensor,
    bias: Option<&CubeTensor>,
    form: Form,
) -> Result<CubeTensor, CubeError> {
    let home = Home::of(x);
    let bias = read_optional(bias);
    let made = gelu::bias_gelu(&home.client, &read(x), bias.as_ref(), form)?;
    Ok(home.made(made, x))
}

/// Gradients of input and, if there is one, bias.
pub(super) fn bias_gelu_backward(
    x: &CubeTensor,
    bias: Option<&CubeTensor>,
    form: Form,
    gradient: &CubeTensor,
) -> Result<(CubeTensor, Option<CubeTensor>), CubeError> {
    let home = Home::of(x);
    let bias = read_optional(bias);
    let (gradient, input) = (read(gradient), read(x));
    let made = gelu::bias_gelu_backward(&home.client, &gradient, &input, bias.as_ref(), form)?;
    let bias = made.bias.map(|bias| home.made(bias, x));
    Ok((home.made(made.input, x), bias))
}

pub(super) fn dropout_add(
    x: &CubeTensor,
    bias: Option<&CubeTensor>,
    residual: Option<&CubeTensor>,
    drop: Drop,
) -> Result<CubeTensor, CubeError> {
    let home = Home::of(x);
    let made = add::dropout_add(
        &home.client,
        &read(x),
        read_optional(residual).as_ref(),
        read_optional(bias).as_ref(),
        drop.mask(),
    )?;
    Ok(home.made(made, x))
}

/// Gradients of input and, if asked for, bias.
pub(super) fn dropout_add_backward(
    gradient: &CubeTensor,
    with_bias: bool,
    drop: Drop,
) -> Result<(CubeTensor, Option<CubeTensor>), CubeError> {
    let home = Home::of(gradient);
    let read = read(gradient);
    let made = add::dropout_add_backward(&home.client, &read, with_bias, drop.mask())?;
    let bias = made.bias.map(|bias| home.made(bias, gradient));
    Ok((home.made(made.input, gradient), bias))
}
