//! The product with a weight on the CPU.
//!
//! A result is cut into bands of rows, by sizes alone, and each band is one product on one thread. A
//! band is as high as four of them allow, within bounds: lower ones pack the other operand more often
//! than pays, higher ones leave threads without work, and a bias finds the band gone from the cache.
//! The bounds were measured on two cores with 1 MiB of second-level cache each, for 2048 rows and
//! weights of 256 by 256 to 1024: against one product on all threads, bands were as fast or up to 15 %
//! faster.

use rayon::prelude::*;

use super::{KERNEL, Linear, Stored};
use crate::bands;
use crate::error::{KernelError, lengths};
use crate::matrix::{Matrix, MatrixMut, Place, product};

/// Bands that a result should have at least.
const BANDS: usize = 4;

/// Rows of a band of a result that has so many.
fn band(rows: usize, least: usize, most: usize) -> usize {
    (rows / BANDS).clamp(least, most)
}

/// A weight, read as `[inputs, outputs]`.
fn weight(shape: Linear, w: &[f32], stored: Stored) -> Matrix<'_> {
    match stored {
        Stored::ByInput => Matrix::new(w, shape.inputs, shape.outputs, shape.outputs),
        Stored::ByOutput => Matrix::new(w, shape.outputs, shape.inputs, shape.inputs).transposed(),
    }
}

/// Writes `y`; called again, the same bits.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn forward(
    shape: Linear,
    x: &[f32],
    w: &[f32],
    stored: Stored,
    bias: Option<&[f32]>,
    y: &mut [f32],
) -> Result<(), KernelError> {
    let (inputs, outputs) = (shape.inputs, shape.outputs);
    lengths(
        KERNEL,
        [
            ("x", x.len(), shape.rows * inputs),
            ("w", w.len(), inputs * outputs),
            ("bias", bias.map_or(outputs, <[f32]>::len), outputs),
            ("y", y.len(), shape.rows * outputs),
        ],
    )?;
    // Packing across the grain of memory costs more: then in higher bands.
    let band = match stored {
        Stored::ByInput => band(shape.rows, 64, 256),
        Stored::ByOutput => band(shape.rows, 64, 512),
    };
    let w = weight(shape, w, stored);
    y.par_chunks_mut(band * outputs)
        .zip(x.par_chunks(band * inputs))
        .for_each(|(y, x)| {
            let rows = y.len() / outputs;
            multiply(Matrix::new(x, rows, inputs, inputs), w, y, outputs);
            if let Some(bias) = bias {
                for row in y.chunks_exact_mut(outputs) {
                    for (y, bias) in row.iter_mut().zip(bias) {
                        *y += bias;
                    }
                }
            }
        });
    Ok(())
}

/// Writes `dx`.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn input_gradient(
    shape: Linear,
    w: &[f32],
    stored: Stored,
    dy: &[f32],
    dx: &mut [f32],
) -> Result<(), KernelError> {
    let reversed = Linear {
        rows: shape.rows,
        inputs: shape.outputs,
        outputs: shape.inputs,
    };
    lengths(
        KERNEL,
        [
            ("w", w.len(), shape.inputs * shape.outputs),
            ("dy", dy.len(), shape.rows * shape.outputs),
            ("dx", dx.len(), shape.rows * shape.inputs),
        ],
    )?;
    let stored = match stored {
        Stored::ByInput => Stored::ByOutput,
        Stored::ByOutput => Stored::ByInput,
    };
    forward(reversed, dy, w, stored, None, dx)
}

/// Writes `dw`, `[inputs, outputs]` however the weight is stored.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn weight_gradient(
    shape: Linear,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
) -> Result<(), KernelError> {
    let (rows, inputs, outputs) = (shape.rows, shape.inputs, shape.outputs);
    lengths(
        KERNEL,
        [
            ("x", x.len(), rows * inputs),
            ("dy", dy.len(), rows * outputs),
            ("dw", dw.len(), inputs * outputs),
        ],
    )?;
    if rows == 0 {
        dw.fill(0.0);
        return Ok(());
    }
    let band = band(inputs, 64, 128);
    let dy = Matrix::new(dy, rows, outputs, outputs);
    dw.par_chunks_mut(band * outputs)
        .enumerate()
        .for_each(|(index, dw)| {
            let first = index * band;
            let columns = Matrix::new(&x[first..], rows, dw.len() / outputs, inputs);
            multiply(columns.transposed(), dy, dw, outputs);
        });
    Ok(())
}

/// Writes `dbias`.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn bias_gradient(shape: Linear, dy: &[f32], dbias: &mut [f32]) -> Result<(), KernelError> {
    let width = shape.outputs;
    lengths(
        KERNEL,
        [
            ("dy", dy.len(), shape.rows * width),
            ("dbias", dbias.len(), width),
        ],
    )?;
    let rows = bands::rows(width);
    let mut partials = vec![0.0; shape.rows.div_ceil(rows) * width];
    partials
        .par_chunks_mut(width)
        .zip(dy.par_chunks(rows * width))
        .for_each(|(partial, band)| bands::add_up(band, width, partial));
    bands::add_up(&partials, width, dbias);
    Ok(())
}

/// `c = a b`, whose rows of `width` lie side by side.
fn multiply(a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32], width: usize) {
    let rows = c.len() / width;
    let c = MatrixMut {
        data: c,
        rows,
        columns: width,
        stride: width,
    };
    product(1.0, a, b, Place::Set, c);
}
