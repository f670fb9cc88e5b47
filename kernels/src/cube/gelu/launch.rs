//! Checks, outputs and grids.

use cubecl::{prelude::*, std::tensor::TensorHandle};

use super::super::{
    CubeError,
    operand::{
        F32, address, buffer, elementwise, empty, float, packed, rows, shape, typed, units_for,
        vector_size,
    },
    reduce::{fold_rows, row_blocks},
};
use super::{GeluKind, kernel};

/// `gelu(input + bias)` of `input` `[.., width]`, in its shape; `bias` `[width]` may be absent. Also
/// the recomputation.
///
/// # Errors
///
/// If shapes or elements do not fit, or an operand is empty or on another device.
pub fn bias_gelu(
    client: &Client,
    input: &TensorHandle,
    bias: Option<&TensorHandle>,
    kind: GeluKind,
) -> Result<TensorHandle, CubeError> {
    let (rows, width) = check(client, input, bias)?;
    let address = address(client, rows * width)?;
    let input = packed(client, input);
    let bias_or_any = bias.map_or_else(|| input.clone(), |it| packed(client, it));
    let output = empty(client, input.shape(), input.dtype);
    let lanes = vector_size(client, width, &[&input, &bias_or_any]);
    let vectors = rows * width / lanes;
    let (count, dim) = elementwise(client, vectors);
    // SAFETY: units stay below the number of vectors; the bias is read modulo its length.
    unsafe {
        kernel::forward::launch_unchecked(
            client,
            count,
            dim,
            address,
            lanes,
            buffer(&input),
            buffer(&bias_or_any),
            buffer(&output),
            vectors,
            width / lanes,
            kind,
            bias.is_some(),
            input.dtype,
        );
    }
    Ok(output)
}

/// What flows back.
#[derive(Debug)]
pub struct BiasGeluGradients {
    /// Of the input, in its shape.
    pub input: TensorHandle,
    /// Of the bias, `[width]`, if there is one.
    pub bias: Option<TensorHandle>,
}

/// Gradients of input and bias, from the output's `gradient` and the operands of the forward.
///
/// # Errors
///
/// As [`bias_gelu`].
pub fn bias_gelu_backward(
    client: &Client,
    gradient: &TensorHandle,
    input: &TensorHandle,
    bias: Option<&TensorHandle>,
    kind: GeluKind,
) -> Result<BiasGeluGradients, CubeError> {
    let (rows, width) = check(client, input, bias)?;
    let dtype = input.dtype;
    typed(client, "gradient", gradient, dtype)?;
    shape("gradient", gradient, input.shape())?;
    let address = address(client, rows * width)?;

    let gradient = packed(client, gradient);
    let input = packed(client, input);
    let bias_or_any = bias.map_or_else(|| input.clone(), |it| packed(client, it));
    let input_gradient = empty(client, input.shape(), dtype);
    let lanes = vector_size(client, width, &[&gradient, &input, &bias_or_any]);
    let rows_per_block = rows.div_ceil(row_blocks(rows));
    let blocks = rows.div_ceil(rows_per_block);
    let partial = match bias {
        Some(_) => empty(client, &[1, blocks, width], F32),
        None => empty(client, &[1, 1, lanes], F32),
    };
    let units = units_for(client, width / lanes, 128);
    let across = (width / lanes).div_ceil(units as usize);
    // SAFETY: a unit stays inside its column, its block and the number of rows.
    unsafe {
        kernel::backward::launch_unchecked(
            client,
            CubeCount::Static(across as u32, blocks as u32, 1),
            CubeDim::new_1d(units),
            address,
            lanes,
            buffer(&gradient),
            buffer(&input),
            buffer(&bias_or_any),
            buffer(&input_gradient),
            buffer(&partial),
            rows,
            rows_per_block,
            width / lanes,
            kind,
            bias.is_some(),
            dtype,
            F32,
        );
    }
    let bias = match bias {
        Some(_) => Some(fold_rows(client, &partial, 0, dtype)?),
        None => None,
    };
    Ok(BiasGeluGradients {
        input: input_gradient,
        bias,
    })
}

fn check(
    client: &Client,
    input: &TensorHandle,
    bias: Option<&TensorHandle>,
) -> Result<(usize, usize), CubeError> {
    float(client, "input", input)?;
    let (rows, width) = rows("input", input)?;
    if let Some(bias) = bias {
        typed(client, "bias", bias, input.dtype)?;
        shape("bias", bias, &[width])?;
    }
    Ok((rows, width))
}
