//! Layer norm: `y = (x - mean) * rstd * gamma + beta` for each row.
//!
//! | buffer | shape | kept by whom |
//! | --- | --- | --- |
//! | `x`, `y`, `dx`, `dy` | `[rows, width]` | the model |
//! | `gamma`, `beta`, `dgamma`, `dbeta` | `[width]` | the model |
//! | `mean`, `rstd` | `[rows]` | forward, for recompute and backward |
//!
//! All `f32`. `rstd` is one over the root of the biased variance plus epsilon. Mean and `rstd` are
//! 8 bytes a row, so that keeping them costs next to nothing, and recompute then needs no
//! reduction: it is one pass that writes the forward's bits.

mod cpu;
pub mod reference;

#[cfg(test)]
mod tests;

pub use cpu::{backward, forward, recompute};

use crate::cost::Cost;
use crate::error::{KernelError, elements, positive};

const KERNEL: &str = "layer norm";

/// Sizes of a layer norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNorm {
    rows: usize,
    width: usize,
    epsilon: f32,
}

impl LayerNorm {
    /// Norms of `rows` rows of `width` elements.
    ///
    /// # Errors
    ///
    /// If `width` is zero, the sizes overflow, or `epsilon` is negative or not finite.
    pub fn new(rows: usize, width: usize, epsilon: f32) -> Result<Self, KernelError> {
        positive(KERNEL, "the width", width)?;
        elements(KERNEL, [rows, width])?;
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(KernelError::Epsilon(epsilon));
        }
        Ok(Self {
            rows,
            width,
            epsilon,
        })
    }

    /// Rows that are normalised.
    #[must_use]
    pub const fn rows(self) -> usize {
        self.rows
    }

    /// Elements of a row.
    #[must_use]
    pub const fn width(self) -> usize {
        self.width
    }

    /// What is added to the variance.
    #[must_use]
    pub const fn epsilon(self) -> f32 {
        self.epsilon
    }

    /// Elements of `x`.
    #[must_use]
    pub const fn elements(self) -> usize {
        self.rows * self.width
    }

    /// What forward does.
    #[must_use]
    pub const fn forward_cost(self) -> Cost {
        let (n, w) = (self.elements(), self.width);
        Cost::of(n + 2 * w, n + 2 * self.rows, 8 * n as u64)
    }

    /// What recompute does: half the arithmetic, the same traffic.
    #[must_use]
    pub const fn recompute_cost(self) -> Cost {
        let (n, w) = (self.elements(), self.width);
        Cost::of(n + 2 * w + 2 * self.rows, n, 4 * n as u64)
    }

    /// What backward does.
    #[must_use]
    pub const fn backward_cost(self) -> Cost {
        let (n, w) = (self.elements(), self.width);
        Cost::of(2 * n + w + 2 * self.rows, n + 2 * w, 14 * n as u64)
    }
}
