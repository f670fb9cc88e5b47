//! Dropout and residual on the CPU.

use rayon::prelude::*;

use super::{DropoutAdd, KERNEL};
use crate::bands;
use crate::error::{KernelError, lengths};
use crate::random::DropoutMask;
use crate::vector::vectorised;

/// Mask values that are made at a time, in a buffer that stays in the nearest cache.
const MASK: usize = 1024;

/// Writes `y`; called again, the same bits.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn forward(
    shape: DropoutAdd,
    x: &[f32],
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
    mask: DropoutMask,
    y: &mut [f32],
) -> Result<(), KernelError> {
    let (n, width) = (shape.elements(), shape.width());
    lengths(
        KERNEL,
        [
            ("x", x.len(), n),
            ("bias", bias.map_or(width, <[f32]>::len), width),
            ("residual", residual.map_or(n, <[f32]>::len), n),
            ("y", y.len(), n),
        ],
    )?;
    let band = bands::rows(width) * width;
    y.par_chunks_mut(band)
        .zip(x.par_chunks(band))
        .enumerate()
        .for_each(|(index, (y, x))| {
            let first = index * band;
            vectorised(
                #[inline(always)]
                || {
                    y.copy_from_slice(x);
                    if let Some(bias) = bias {
                        for y in y.chunks_exact_mut(width) {
                            for (y, &bias) in y.iter_mut().zip(bias) {
                                *y += bias;
                            }
                        }
                    }
                    multiply(mask, first, y);
                    if let Some(residual) = residual {
                        for (y, &residual) in y.iter_mut().zip(&residual[first..]) {
                            *y += residual;
                        }
                    }
                },
            );
        });
    Ok(())
}

/// Writes `dx` and, if asked for, `dbias`.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn backward(
    shape: DropoutAdd,
    dy: &[f32],
    mask: DropoutMask,
    dx: &mut [f32],
    dbias: Option<&mut [f32]>,
) -> Result<(), KernelError> {
    let (n, width) = (shape.elements(), shape.width());
    lengths(
        KERNEL,
        [
            ("dy", dy.len(), n),
            ("dx", dx.len(), n),
            ("dbias", dbias.as_ref().map_or(width, |b| b.len()), width),
        ],
    )?;
    let band = bands::rows(width) * width;
    let bands = dx.par_chunks_mut(band).zip(dy.par_chunks(band)).enumerate();
    let run = |index: usize, dy: &[f32], dx: &mut [f32]| {
        vectorised(
            #[inline(always)]
            || {
                dx.copy_from_slice(dy);
                multiply(mask, index * band, dx);
            },
        );
    };
    let Some(dbias) = dbias else {
        bands.for_each(|(index, (dx, dy))| run(index, dy, dx));
        return Ok(());
    };
    let mut partials = vec![0.0; n.div_ceil(band) * width];
    bands
        .zip(partials.par_chunks_mut(width))
        .for_each(|((index, (dx, dy)), partial)| {
            run(index, dy, dx);
            bands::add_up(dx, width, partial);
        });
    bands::add_up(&partials, width, dbias);
    Ok(())
}

/// Multiplies `y` by the mask; its first element is number `first` of the tensor.
#[inline(always)]
fn multiply(mask: DropoutMask, first: usize, y: &mut [f32]) {
    let mut values = [0.0f32; MASK];
    for (index, y) in y.chunks_mut(MASK).enumerate() {
        let values = &mut values[..y.len()];
        mask.write((first + index * MASK) as u64, values);
        for (y, &mask) in y.iter_mut().zip(&*values) {
            *y *= mask;
        }
    }
}
