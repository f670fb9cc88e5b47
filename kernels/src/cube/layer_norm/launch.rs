//! Checks, outputs and grids.

use cubecl::{prelude::*, std::tensor::TensorHandle};

use super::super::{
    CubeError,
    operand::{
        F32, address, buffer, cubes, elementwise, empty, float, packed, rows, shape, typed,
        units_for, vector_size,
    },
    reduce::{fold_rows, row_blocks},
};
use super::{backward, forward};

/// Vectors of a row that one unit keeps in registers.
const MOST_PER_UNIT: usize = 16;

/// What a forward makes.
#[derive(Debug)]
pub struct LayerNormOutput {
    /// The output, in the input's shape.
    pub output: TensorHandle,
    /// Mean of every row: `[rows]`, `f32`.
    pub mean: TensorHandle,
    /// Reciprocal standard deviation of every row, with epsilon inside: `[rows]`, `f32`.
    pub rstd: TensorHandle,
}

/// Normalises the last dimension of `input` `[.., width]`, scales it by `gamma` and shifts it by
/// `beta`, both `[width]`.
///
/// # Errors
///
/// If shapes or elements do not fit, an operand is empty or on another device, a row is too wide
/// (16,384 elements at least are possible), or `epsilon` is negative or not finite.
pub fn layer_norm(
    client: &Client,
    input: &TensorHandle,
    gamma: &TensorHandle,
    beta: Option<&TensorHandle>,
    epsilon: f32,
) -> Result<LayerNormOutput, CubeError> {
    let (rows, width) = check(client, input, gamma, beta)?;
    if !epsilon.is_finite() || epsilon < 0.0 {
        return Err(CubeError::Value {
            what: "epsilon",
            found: f64::from(epsilon),
            expected: "finite and not negative",
        });
    }
    let address = address(client, rows * width)?;
    let dtype = input.dtype;
    let input = packed(client, input);
    let gamma = packed(client, gamma);
    let beta_or_any = beta.map_or_else(|| gamma.clone(), |it| packed(client, it));
    let lanes = vector_size(client, width, &[&input, &gamma, &beta_or_any]);
    let (units, per_unit) = split_row(client, width / lanes, lanes)?;
    let output = empty(client, input.shape(), dtype);
    let mean = empty(client, &[rows], F32);
    let rstd = empty(client, &[rows], F32);
    // SAFETY: cubes stay below `rows` and units below the vectors of a row; parameters have one row.
    unsafe {
        forward::forward::launch_unchecked(
            client,
            cubes(client, rows),
            CubeDim::new_1d(units),
            address,
            lanes,
            buffer(&input),
            buffer(&gamma),
            buffer(&beta_or_any),
            buffer(&output),
            buffer(&mean),
            buffer(&rstd),
            rows,
            width / lanes,
            width as f32,
            epsilon,
            per_unit,
            units,
            beta.is_some(),
            dtype,
        );
    }
    Ok(LayerNormOutput { output, mean, rstd })
}

/// The output of [`layer_norm`] again, from the statistics that it saved: the same bits, without a
/// reduction.
///
/// # Errors
///
/// As [`layer_norm`], and if the statistics are not `f32` `[rows]`.
pub fn layer_norm_recompute(
    client: &Client,
    input: &TensorHandle,
    gamma: &TensorHandle,
    beta: Option<&TensorHandle>,
    mean: &TensorHandle,
    rstd: &TensorHandle,
) -> Result<TensorHandle, CubeError> {
    let (rows, width) = check(client, input, gamma, beta)?;
    check_statistics(client, rows, mean, rstd)?;
    let address = address(client, rows * width)?;
    let dtype = input.dtype;
    let input = packed(client, input);
    let gamma = packed(client, gamma);
    let beta_or_any = beta.map_or_else(|| gamma.clone(), |it| packed(client, it));
    let lanes = vector_size(client, width, &[&input, &gamma, &beta_or_any]);
    let output = empty(client, input.shape(), dtype);
    let vectors = rows * width / lanes;
    let (count, dim) = elementwise(client, vectors);
    // SAFETY: units stay below the number of vectors; row and column follow from it.
    unsafe {
        forward::recompute::launch_unchecked(
            client,
            count,
            dim,
            address,
            lanes,
            buffer(&input),
            buffer(&gamma),
            buffer(&beta_or_any),
            buffer(&packed(client, mean)),
            buffer(&packed(client, rstd)),
            buffer(&output),
            vectors,
            width / lanes,
            beta.is_some(),
            dtype,
        );
    }
    Ok(output)
}

/// What flows back.
#[derive(Debug)]
pub struct LayerNormGradients {
    /// Of the input, in its shape.
    pub input: TensorHandle,
    /// Of gamma: `[width]`.
    pub gamma: TensorHandle,
    /// Of beta: `[width]`.
    pub beta: TensorHandle,
}

/// Gradients of input, gamma and beta, from the output's `gradient`, the input, and what the
/// forward saved.
///
/// # Errors
///
/// As [`layer_norm_recompute`].
pub fn layer_norm_backward(
    client: &Client,
    gradient: &TensorHandle,
    input: &TensorHandle,
    gamma: &TensorHandle,
    mean: &TensorHandle,
    rstd: &TensorHandle,
) -> Result<LayerNormGradients, CubeError> {
    let (rows, width) = check(client, input, gamma, None)?;
    check_statistics(client, rows, mean, rstd)?;
    let dtype = input.dtype;
    typed(client, "gradient", gradient, dtype)?;
    shape("gradient", gradient, input.shape())?;
    let address = address(client, rows * width)?;

    let gradient = packed(client, gradient);
    let input = packed(client, input);
    let gamma = packed(client, gamma);
    let lanes = vector_size(client, width, &[&gradient, &input, &gamma]);
    let (units, per_unit) = split_row(client, width / lanes, lanes)?;
    let rows_per_block = rows.div_ceil(row_blocks(rows));
    let blocks = rows.div_ceil(rows_per_block);
    let input_gradient = empty(client, input.shape(), dtype);
    let partial = empty(client, &[2, blocks, width], F32);
    // SAFETY: cubes stay below `blocks`, rows below `rows`, units below the vectors of a row.
    unsafe {
        backward::backward::launch_unchecked(
            client,
            cubes(client, blocks),
            CubeDim::new_1d(units),
            address,
            lanes,
            buffer(&gradient),
            buffer(&input),
            buffer(&gamma),
            buffer(&packed(client, mean)),
            buffer(&packed(client, rstd)),
            buffer(&input_gradient),
            buffer(&partial),
            rows,
            rows_per_block,
            blocks,
            width / lanes,
            width as f32,
            per_unit,
            units,
            dtype,
            F32,
        );
    }
    Ok(LayerNormGradients {
        input: input_gradient,
        gamma: fold_rows(client, &partial, 0, dtype)?,
        beta: fold_rows(client, &partial, 1, dtype)?,
    })
}

fn check(
    client: &Client,
    input: &TensorHandle,
    gamma: &TensorHandle,
    beta: Option<&TensorHandle>,
) -> Result<(usize, usize), CubeError> {
    float(client, "input", input)?;
    let (rows, width) = rows("input", input)?;
    typed(client, "gamma", gamma, input.dtype)?;
    shape("gamma", gamma, &[width])?;
    if let Some(beta) = beta {
        typed(client, "beta", beta, input.dtype)?;
        shape("beta", beta, &[width])?;
    }
    Ok((rows, width))
}

fn check_statistics(
    client: &Client,
    rows: usize,
    mean: &TensorHandle,
    rstd: &TensorHandle,
) -> Result<(), CubeError> {
    for (name, tensor) in [("mean", mean), ("rstd", rstd)] {
        typed(client, name, tensor, F32)?;
        shape(name, tensor, &[rows])?;
    }
    Ok(())
}

/// Units of a cube, and vectors that each of them keeps.
fn split_row(client: &Client, vectors: usize, lanes: usize) -> Result<(u32, usize), CubeError> {
    // Few units with much in flight first; all there are only for rows that need them.
    for most in [256, 1024] {
        let units = units_for(client, vectors, most);
        let per_unit = vectors.div_ceil(units as usize);
        if per_unit <= MOST_PER_UNIT {
            return Ok((units, per_unit));
        }
    }
    Err(CubeError::TooLarge {
        what: "width of a row",
        found: vectors * lanes,
        limit: units_for(client, vectors, 1024) as usize * MOST_PER_UNIT * lanes,
    })
}
