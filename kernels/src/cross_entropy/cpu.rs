//! Cross-entropy on the CPU.

use rayon::prelude::*;

use super::{CrossEntropy, IGNORED, KERNEL};
use crate::bands;
use crate::error::{KernelError, lengths};
use crate::vector::{exp, max, sum, vectorised};

/// Writes `losses` and `lse`; returns the mean loss over the rows that count, NaN of none.
///
/// # Errors
///
/// If a buffer's length is not the shape's, or a target is not a class.
pub fn forward(
    shape: CrossEntropy,
    logits: &[f32],
    targets: &[i64],
    losses: &mut [f32],
    lse: &mut [f32],
) -> Result<f32, KernelError> {
    let (rows, classes) = (shape.rows(), shape.classes());
    lengths(
        KERNEL,
        [
            ("logits", logits.len(), shape.elements()),
            ("targets", targets.len(), rows),
            ("losses", losses.len(), rows),
            ("lse", lse.len(), rows),
        ],
    )?;
    let counted = shape.counted(targets)?;
    let band = bands::rows(classes);
    losses
        .par_chunks_mut(band)
        .zip(lse.par_chunks_mut(band))
        .zip(logits.par_chunks(band * classes))
        .zip(targets.par_chunks(band))
        .for_each(|(((losses, lse), logits), targets)| {
            vectorised(
                #[inline(always)]
                || {
                    for (((loss, lse), logits), &target) in losses
                        .iter_mut()
                        .zip(lse)
                        .zip(logits.chunks_exact(classes))
                        .zip(targets)
                    {
                        *lse = log_sum_exp(logits);
                        *loss = match target {
                            IGNORED => 0.0,
                            class => *lse - logits[class as usize],
                        };
                    }
                },
            );
        });
    // In double precision a sum of millions of losses keeps every digit of the mean.
    let total: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
    Ok((total / counted as f64) as f32)
}

/// Writes `dlogits`, the gradient of the mean loss times `gradient`.
///
/// # Errors
///
/// If a buffer's length is not the shape's, or a target is not a class.
pub fn backward(
    shape: CrossEntropy,
    logits: &[f32],
    targets: &[i64],
    lse: &[f32],
    gradient: f32,
    dlogits: &mut [f32],
) -> Result<(), KernelError> {
    let (rows, classes) = (shape.rows(), shape.classes());
    lengths(
        KERNEL,
        [
            ("logits", logits.len(), shape.elements()),
            ("targets", targets.len(), rows),
            ("lse", lse.len(), rows),
            ("dlogits", dlogits.len(), shape.elements()),
        ],
    )?;
    let scale = gradient / shape.counted(targets)? as f32;
    let band = bands::rows(classes);
    dlogits
        .par_chunks_mut(band * classes)
        .zip(logits.par_chunks(band * classes))
        .zip(targets.par_chunks(band).zip(lse.par_chunks(band)))
        .for_each(|((dlogits, logits), (targets, lse))| {
            vectorised(
                #[inline(always)]
                || {
                    for (((dlogits, logits), &target), &lse) in dlogits
                        .chunks_exact_mut(classes)
                        .zip(logits.chunks_exact(classes))
                        .zip(targets)
                        .zip(lse)
                    {
                        if target == IGNORED {
                            dlogits.fill(0.0);
                            continue;
                        }
                        for (d, &logit) in dlogits.iter_mut().zip(logits) {
                            *d = exp(logit - lse) * scale;
                        }
                        dlogits[target as usize] -= scale;
                    }
                },
            );
        });
    Ok(())
}

/// `log(sum(exp(row)))`, without overflow.
#[inline(always)]
fn log_sum_exp(row: &[f32]) -> f32 {
    let largest = max(row);
    largest + sum(row, |v| exp(v - largest)).ln()
}
