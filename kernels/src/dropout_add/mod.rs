//! Dropout and residual: `y = residual + mask * (x + bias)`.
//!
//! | buffer | shape |
//! | --- | --- |
//! | `x`, `residual`, `y`, `dx`, `dy` | `[rows, width]` |
//! | `bias`, `dbias` | `[width]`, or none |
//!
//! All `f32`. The mask is a function of the stream's key and the element's index
//! ([`DropoutMask`](crate::random::DropoutMask)): forward, recompute and backward make it again in
//! registers, and it is never stored. The gradient of the residual is `dy` itself.

mod cpu;
pub mod reference;

#[cfg(test)]
mod tests;

pub use cpu::{backward, forward};

use crate::cost::Cost;
use crate::error::{KernelError, elements, positive};

const KERNEL: &str = "dropout and add";

/// Sizes of a dropout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropoutAdd {
    rows: usize,
    width: usize,
}

impl DropoutAdd {
    /// Dropout of `rows` rows of `width` elements.
    ///
    /// # Errors
    ///
    /// If `width` is zero or the sizes overflow.
    pub fn new(rows: usize, width: usize) -> Result<Self, KernelError> {
        positive(KERNEL, "the width", width)?;
        elements(KERNEL, [rows, width])?;
        Ok(Self { rows, width })
    }

    /// Elements of `x`.
    #[must_use]
    pub const fn elements(self) -> usize {
        self.rows * self.width
    }

    /// Elements of a row.
    #[must_use]
    pub const fn width(self) -> usize {
        self.width
    }

    /// What forward, and recompute, does. A block of Philox, four elements, is some 100 operations.
    #[must_use]
    pub const fn forward_cost(self) -> Cost {
        let n = self.elements();
        Cost::of(2 * n + self.width, n, 28 * n as u64)
    }

    /// What backward does.
    #[must_use]
    pub const fn backward_cost(self) -> Cost {
        let n = self.elements();
        Cost::of(n, n + self.width, 27 * n as u64)
    }
}
