//! Checks, outputs and grids.

use cubecl::{prelude::*, std::tensor::TensorHandle};

use super::super::{
    CubeError,
    operand::{
        F32, MAX_VECTOR, address, buffer, elementwise, empty, float, packed, rows, shape, typed,
        units_for, vector_size,
    },
    philox::{mask_argument, place},
    reduce::{fold_rows, row_blocks},
};
use super::kernel;
use crate::random::DropoutMask;

/// `residual + mask * (input + bias)`, of `input`'s shape `[.., width]`; both `residual`, of the same
/// shape, and `bias` `[width]` may be absent. Also the recomputation.
///
/// # Errors
///
/// If shapes or elements differ, an operand is empty or on another device, there are more than
/// 2^34 elements, or the mask is of a slice that does not lie inside of its row of at most 2^32.
pub fn dropout_add(
    client: &Client,
    input: &TensorHandle,
    residual: Option<&TensorHandle>,
    bias: Option<&TensorHandle>,
    mask: DropoutMask,
) -> Result<TensorHandle, CubeError> {
    let dtype = input.dtype;
    float(client, "input", input)?;
    let (_, width) = rows("input", input)?;
    if let Some(residual) = residual {
        typed(client, "residual", residual, dtype)?;
        shape("residual", residual, input.shape())?;
    }
    if let Some(bias) = bias {
        typed(client, "bias", bias, dtype)?;
        shape("bias", bias, &[width])?;
    }
    let elements = input.shape().iter().product();
    let (place, part) = place(mask, elements)?;
    let address = address(client, elements)?;

    let input = packed(client, input);
    let residual_or_any = residual.map_or_else(|| input.clone(), |it| packed(client, it));
    let bias_or_any = bias.map_or_else(|| input.clone(), |it| packed(client, it));
    let output = empty(client, input.shape(), dtype);
    let lanes = vector_size(client, width, &[&input, &residual_or_any, &bias_or_any]);
    let (count, dim) = elementwise(client, elements.div_ceil(MAX_VECTOR));
    // SAFETY: a unit stays below the number of vectors, which all matrices have; the bias is read
    // modulo its length.
    unsafe {
        kernel::forward::launch_unchecked(
            client,
            count,
            dim,
            address,
            lanes,
            buffer(&input),
            buffer(&residual_or_any),
            buffer(&bias_or_any),
            buffer(&output),
            mask_argument(mask, part),
            elements / lanes,
            width / lanes,
            residual.is_some(),
            bias.is_some(),
            place,
            dtype,
        );
    }
    Ok(output)
}

/// What flows back from `residual + dropout(input + bias)`. The residual's gradient is the
/// output's, so it is not here.
#[derive(Debug)]
pub struct DropoutAddGradients {
    /// Of the input, in its shape.
    pub input: TensorHandle,
    /// Of the bias, `[width]`, if it was asked for.
    pub bias: Option<TensorHandle>,
}

/// Gradients of input and, if `with_bias`, bias, from the output's `gradient` `[.., width]`.
///
/// # Errors
///
/// As [`dropout_add`].
pub fn dropout_add_backward(
    client: &Client,
    gradient: &TensorHandle,
    with_bias: bool,
    mask: DropoutMask,
) -> Result<DropoutAddGradients, CubeError> {
    let dtype = gradient.dtype;
    float(client, "gradient", gradient)?;
    let (rows, width) = rows("gradient", gradient)?;
    let elements = rows * width;
    let (place, part) = place(mask, elements)?;
    let address = address(client, elements)?;

    let gradient = packed(client, gradient);
    let input = empty(client, gradient.shape(), dtype);
    let lanes = vector_size(client, width, &[&gradient]);
    if !with_bias {
        let (count, dim) = elementwise(client, elements.div_ceil(MAX_VECTOR));
        // SAFETY: a unit stays below the number of vectors, which both matrices have.
        unsafe {
            kernel::backward::launch_unchecked(
                client,
                count,
                dim,
                address,
                lanes,
                buffer(&gradient),
                buffer(&input),
                mask_argument(mask, part),
                elements / lanes,
                place,
                dtype,
            );
        }
        return Ok(DropoutAddGradients { input, bias: None });
    }

    let blocks = row_blocks(rows);
    let rows_per_block = rows.div_ceil(blocks);
    let blocks = rows.div_ceil(rows_per_block);
    let partial = empty(client, &[1, blocks, width], F32);
    let units = units_for(client, width / lanes, 128);
    let across = (width / lanes).div_ceil(units as usize);
    // SAFETY: a unit stays inside its column, its block and the number of rows.
    unsafe {
        kernel::backward_with_bias::launch_unchecked(
            client,
            CubeCount::Static(across as u32, blocks as u32, 1),
            CubeDim::new_1d(units),
            address,
            lanes,
            buffer(&gradient),
            buffer(&input),
            buffer(&partial),
            mask_argument(mask, part),
            rows,
            rows_per_block,
            width / lanes,
            place,
            dtype,
            F32,
        );
    }
    let bias = Some(fold_rows(client, &partial, 0, dtype)?);
    Ok(DropoutAddGradients { input, bias })
}
