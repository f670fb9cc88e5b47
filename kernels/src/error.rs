//! What a launch refuses.

/// Buffers and sizes that do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A buffer has another length than the shape asks for.
    #[error("{kernel}: {buffer} has {found} elements, the shape asks for {expected}")]
    Length {
        /// The kernel.
        kernel: &'static str,
        /// The buffer.
        buffer: &'static str,
        /// Elements by the shape.
        expected: usize,
        /// Elements there are.
        found: usize,
    },
    /// A size that must be one at least.
    #[error("{kernel}: {size} is zero")]
    Zero {
        /// The kernel.
        kernel: &'static str,
        /// The size.
        size: &'static str,
    },
    /// More elements than the address space has.
    #[error("{kernel}: the sizes {sizes:?} have a product beyond the address space")]
    Overflow {
        /// The kernel.
        kernel: &'static str,
        /// The factors.
        sizes: [usize; 4],
    },
    /// An epsilon that does not keep the root of a variance away from zero.
    #[error("layer norm: epsilon {0} is not a finite number of at least 0")]
    Epsilon(f32),
    /// A score that would be scaled by something else than a number.
    #[error("attention: scale {0} is not finite")]
    Scale(f32),
    /// A class that does not exist.
    #[error("cross-entropy: target {target} of row {row} is not one of {classes} classes")]
    Target {
        /// The row.
        row: usize,
        /// Its target.
        target: i64,
        /// Classes there are.
        classes: usize,
    },
}

/// The product of `sizes`.
pub(crate) fn elements<const N: usize>(
    kernel: &'static str,
    sizes: [usize; N],
) -> Result<usize, KernelError> {
    sizes
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size))
        // An allocation of so many 4-byte elements must be possible.
        .filter(|&product| product <= isize::MAX as usize / 4)
        .ok_or_else(|| {
            let mut shown = [1; 4];
            for (shown, size) in shown.iter_mut().zip(sizes) {
                *shown = size;
            }
            KernelError::Overflow {
                kernel,
                sizes: shown,
            }
        })
}

/// Refuses a size of zero.
pub(crate) fn positive(
    kernel: &'static str,
    size: &'static str,
    value: usize,
) -> Result<(), KernelError> {
    match value {
        0 => Err(KernelError::Zero { kernel, size }),
        _ => Ok(()),
    }
}

/// Refuses the first buffer whose length is not the expected one.
pub(crate) fn lengths<const N: usize>(
    kernel: &'static str,
    buffers: [(&'static str, usize, usize); N],
) -> Result<(), KernelError> {
    for (buffer, found, expected) in buffers {
        if found != expected {
            return Err(KernelError::Length {
                kernel,
                buffer,
                expected,
                found,
            });
        }
    }
    Ok(())
}
