//! GELU on the CPU.

use rayon::prelude::*;

use super::{Form, Gelu, KERNEL};
use crate::bands;
use crate::error::{KernelError, lengths};
use crate::vector::{cdf, cdf_and_density, exp, vectorised};

/// Writes `y`; called again, the same bits.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn forward(
    shape: Gelu,
    x: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
) -> Result<(), KernelError> {
    let (n, width) = (shape.elements(), shape.width());
    lengths(
        KERNEL,
        [
            ("x", x.len(), n),
            ("y", y.len(), n),
            ("bias", bias.map_or(width, <[f32]>::len), width),
        ],
    )?;
    let band = bands::rows(width) * width;
    let run = |x: &[f32], y: &mut [f32]| match shape.form() {
        Form::Erf => apply(x, bias, y, width, erf),
        Form::Tanh => apply(x, bias, y, width, tanh),
    };
    y.par_chunks_mut(band)
        .zip(x.par_chunks(band))
        .for_each(|(y, x)| run(x, y));
    Ok(())
}

/// Writes `dx` and, if asked for, `dbias`.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn backward(
    shape: Gelu,
    x: &[f32],
    bias: Option<&[f32]>,
    dy: &[f32],
    dx: &mut [f32],
    dbias: Option<&mut [f32]>,
) -> Result<(), KernelError> {
    let (n, width) = (shape.elements(), shape.width());
    lengths(
        KERNEL,
        [
            ("x", x.len(), n),
            ("bias", bias.map_or(width, <[f32]>::len), width),
            ("dy", dy.len(), n),
            ("dx", dx.len(), n),
            ("dbias", dbias.as_ref().map_or(width, |b| b.len()), width),
        ],
    )?;
    let band = bands::rows(width) * width;
    let run =
        |x: &[f32], dy: &[f32], dx: &mut [f32], partial: Option<&mut [f32]>| match shape.form() {
            Form::Erf => differentiate(x, bias, dy, dx, partial, width, erf_derivative),
            Form::Tanh => differentiate(x, bias, dy, dx, partial, width, tanh_derivative),
        };
    let bands = dx
        .par_chunks_mut(band)
        .zip(x.par_chunks(band).zip(dy.par_chunks(band)));
    let Some(dbias) = dbias else {
        bands.for_each(|(dx, (x, dy))| run(x, dy, dx, None));
        return Ok(());
    };
    let mut partials = vec![0.0; n.div_ceil(band) * width];
    bands
        .zip(partials.par_chunks_mut(width))
        .for_each(|((dx, (x, dy)), partial)| run(x, dy, dx, Some(partial)));
    bands::add_up(&partials, width, dbias);
    Ok(())
}

#[inline(always)]
fn apply(
    x: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
    width: usize,
    function: impl Fn(f32) -> f32,
) {
    vectorised(
        #[inline(always)]
        || match bias {
            Some(bias) => {
                for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                    for ((y, &x), &bias) in y.iter_mut().zip(x).zip(bias) {
                        *y = function(x + bias);
                    }
                }
            }
            None => {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = function(x);
                }
            }
        },
    );
}

#[inline(always)]
fn differentiate(
    x: &[f32],
    bias: Option<&[f32]>,
    dy: &[f32],
    dx: &mut [f32],
    partial: Option<&mut [f32]>,
    width: usize,
    derivative: impl Fn(f32) -> f32,
) {
    vectorised(
        #[inline(always)]
        || {
            match bias {
                Some(bias) => {
                    for ((dx, x), dy) in dx
                        .chunks_exact_mut(width)
                        .zip(x.chunks_exact(width))
                        .zip(dy.chunks_exact(width))
                    {
                        for (((dx, &x), &dy), &bias) in dx.iter_mut().zip(x).zip(dy).zip(bias) {
                            *dx = derivative(x + bias) * dy;
                        }
                    }
                }
                None => {
                    for ((dx, &x), &dy) in dx.iter_mut().zip(x).zip(dy) {
                        *dx = derivative(x) * dy;
                    }
                }
            }
            if let Some(partial) = partial {
                bands::add_up(dx, width, partial);
            }
        },
    );
}

/// Below this the distribution function is below the smallest float, and minus infinity times
/// zero would be no number.
const LOWEST: f32 = -14.0;

#[inline(always)]
fn bounded(x: f32) -> f32 {
    if x < LOWEST { LOWEST } else { x }
}

#[inline(always)]
fn erf(x: f32) -> f32 {
    bounded(x) * cdf(x)
}

#[inline(always)]
fn erf_derivative(x: f32) -> f32 {
    let (cdf, density) = cdf_and_density(x);
    // The density of what is far out is that of 13.2 deviations, 1e-39: times a large `x` it must
    // not come back.
    let x = bounded(x);
    let x = if x > -LOWEST { -LOWEST } else { x };
    x.mul_add(density, cdf)
}

/// `(1 + tanh(u)) / 2` is the logistic function of `2 u`, which needs one exponential and loses no
/// bits for large negative `x`.
#[inline(always)]
fn logistic_of(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x * (x * x).mul_add(CUBE, LINE)))
}

/// `2 sqrt(2 / pi)`, and that times 0.044715.
const LINE: f32 = 1.595_769;
const CUBE: f32 = 0.071_354_814;

#[inline(always)]
fn tanh(x: f32) -> f32 {
    bounded(x) * logistic_of(x)
}

#[inline(always)]
fn tanh_derivative(x: f32) -> f32 {
    let logistic = logistic_of(x);
    let x = bounded(x);
    let x = if x > -LOWEST { -LOWEST } else { x };
    let slope = (x * x).mul_add(3.0 * CUBE, LINE);
    (x * logistic * (1.0 - logistic)).mul_add(slope, logistic)
}
