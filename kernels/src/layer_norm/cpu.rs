//! Layer norm on the CPU.

use rayon::prelude::*;

use super::{KERNEL, LayerNorm};
use crate::bands;
use crate::error::{KernelError, lengths};
use crate::vector::{sum, sum_pairs, vectorised};

/// Writes `y`, `mean` and `rstd`.
///
/// Variance is the mean square of what is left after the mean is taken off, in a second pass over
/// a row that lies in the cache: exact where a large mean would cancel in a single pass.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn forward(
    shape: LayerNorm,
    x: &[f32],
    gamma: &[f32],
    beta: Option<&[f32]>,
    y: &mut [f32],
    mean: &mut [f32],
    rstd: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, x, gamma, beta, y, mean, rstd)?;
    let width = shape.width();
    let rows = bands::rows(width);
    y.par_chunks_mut(rows * width)
        .zip(x.par_chunks(rows * width))
        .zip(mean.par_chunks_mut(rows).zip(rstd.par_chunks_mut(rows)))
        .for_each(|((y, x), (mean, rstd))| {
            vectorised(
                #[inline(always)]
                || {
                    for (((y, x), mean), rstd) in y
                        .chunks_exact_mut(width)
                        .zip(x.chunks_exact(width))
                        .zip(mean)
                        .zip(rstd)
                    {
                        (*mean, *rstd) = statistics(x, shape.epsilon());
                        normalise(x, gamma, beta, *mean, *rstd, y);
                    }
                },
            );
        });
    Ok(())
}

/// Writes `y` from what forward kept: the same bits, without a reduction.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn recompute(
    shape: LayerNorm,
    x: &[f32],
    gamma: &[f32],
    beta: Option<&[f32]>,
    mean: &[f32],
    rstd: &[f32],
    y: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, x, gamma, beta, y, mean, rstd)?;
    let width = shape.width();
    let rows = bands::rows(width);
    y.par_chunks_mut(rows * width)
        .zip(x.par_chunks(rows * width))
        .zip(mean.par_chunks(rows).zip(rstd.par_chunks(rows)))
        .for_each(|((y, x), (mean, rstd))| {
            vectorised(
                #[inline(always)]
                || {
                    for (((y, x), &mean), &rstd) in y
                        .chunks_exact_mut(width)
                        .zip(x.chunks_exact(width))
                        .zip(mean)
                        .zip(rstd)
                    {
                        normalise(x, gamma, beta, mean, rstd, y);
                    }
                },
            );
        });
    Ok(())
}

/// Writes `dx`, `dgamma` and `dbeta`.
///
/// With `h` the normalised row and `g = dy * gamma`, `dx = rstd * (g - mean(g) - h * mean(g * h))`.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
#[expect(
    clippy::too_many_arguments,
    reason = "each is a buffer of the definition"
)]
pub fn backward(
    shape: LayerNorm,
    x: &[f32],
    gamma: &[f32],
    mean: &[f32],
    rstd: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    dgamma: &mut [f32],
    dbeta: &mut [f32],
) -> Result<(), KernelError> {
    let (n, width) = (shape.elements(), shape.width());
    lengths(
        KERNEL,
        [
            ("x", x.len(), n),
            ("gamma", gamma.len(), width),
            ("mean", mean.len(), shape.rows()),
            ("rstd", rstd.len(), shape.rows()),
            ("dy", dy.len(), n),
            ("dx", dx.len(), n),
            ("dgamma", dgamma.len(), width),
            ("dbeta", dbeta.len(), width),
        ],
    )?;
    let rows = bands::rows(width);
    let mut partials = vec![0.0; n.div_ceil(rows * width) * 2 * width];
    dx.par_chunks_mut(rows * width)
        .zip(x.par_chunks(rows * width).zip(dy.par_chunks(rows * width)))
        .zip(mean.par_chunks(rows).zip(rstd.par_chunks(rows)))
        .zip(partials.par_chunks_mut(2 * width))
        .for_each(|(((dx, (x, dy)), (mean, rstd)), partial)| {
            let (dgamma, dbeta) = partial.split_at_mut(width);
            vectorised(
                #[inline(always)]
                || {
                    for ((((dx, x), dy), &mean), &rstd) in dx
                        .chunks_exact_mut(width)
                        .zip(x.chunks_exact(width))
                        .zip(dy.chunks_exact(width))
                        .zip(mean)
                        .zip(rstd)
                    {
                        backward_row(x, gamma, mean, rstd, dy, dx, dgamma, dbeta);
                    }
                },
            );
        });
    let mut both = vec![0.0; 2 * width];
    bands::add_up(&partials, 2 * width, &mut both);
    dgamma.copy_from_slice(&both[..width]);
    dbeta.copy_from_slice(&both[width..]);
    Ok(())
}

fn check(
    shape: LayerNorm,
    x: &[f32],
    gamma: &[f32],
    beta: Option<&[f32]>,
    y: &[f32],
    mean: &[f32],
    rstd: &[f32],
) -> Result<(), KernelError> {
    let (n, rows, width) = (shape.elements(), shape.rows(), shape.width());
    lengths(
        KERNEL,
        [
            ("x", x.len(), n),
            ("gamma", gamma.len(), width),
            ("beta", beta.map_or(width, <[f32]>::len), width),
            ("y", y.len(), n),
            ("mean", mean.len(), rows),
            ("rstd", rstd.len(), rows),
        ],
    )
}

#[inline(always)]
fn statistics(x: &[f32], epsilon: f32) -> (f32, f32) {
    let n = x.len() as f32;
    let mean = sum(x, |v| v) / n;
    let variance = sum(x, |v| (v - mean) * (v - mean)) / n;
    (mean, 1.0 / (variance + epsilon).sqrt())
}

#[inline(always)]
fn normalise(x: &[f32], gamma: &[f32], beta: Option<&[f32]>, mean: f32, rstd: f32, y: &mut [f32]) {
    match beta {
        Some(beta) => {
            for (((y, &x), &gamma), &beta) in y.iter_mut().zip(x).zip(gamma).zip(beta) {
                *y = ((x - mean) * rstd).mul_add(gamma, beta);
            }
        }
        None => {
            for ((y, &x), &gamma) in y.iter_mut().zip(x).zip(gamma) {
                *y = (x - mean) * rstd * gamma;
            }
        }
    }
}

#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "each is a buffer of the definition"
)]
fn backward_row(
    x: &[f32],
    gamma: &[f32],
    mean: f32,
    rstd: f32,
    dy: &[f32],
    dx: &mut [f32],
    dgamma: &mut [f32],
    dbeta: &mut [f32],
) {
    // `dx` first holds dy * gamma.
    for ((dx, &dy), &gamma) in dx.iter_mut().zip(dy).zip(gamma) {
        *dx = dy * gamma;
    }
    let n = x.len() as f32;
    let (sum, dot) = sum_pairs(dx, x, |g, x| (g, g * ((x - mean) * rstd)));
    let (sum, dot) = (sum / n, dot / n);
    for ((((dx, &x), &dy), dgamma), dbeta) in dx.iter_mut().zip(x).zip(dy).zip(dgamma).zip(dbeta) {
        let h = (x - mean) * rstd;
        *dgamma = dy.mul_add(h, *dgamma);
        *dbeta += dy;
        *dx = (*dx - sum - h * dot) * rstd;
    }
}
