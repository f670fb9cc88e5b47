//! Bias and GELU: `y = gelu(x + bias)`.
//!
//! | buffer | shape |
//! | --- | --- |
//! | `x`, `y`, `dx`, `dy` | `[rows, width]` |
//! | `bias`, `dbias` | `[width]`, or none |
//!
//! All `f32`. Nothing is kept but the input: recompute is forward once more, and backward computes
//! the derivative from the input in the same pass that applies it.

mod cpu;
pub mod reference;

#[cfg(test)]
mod tests;

pub use cpu::{backward, forward};

use crate::cost::Cost;
use crate::error::{KernelError, elements, positive};

const KERNEL: &str = "gelu";

/// Which function is called GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// `x` times the normal distribution function.
    Erf,
    /// Its approximation `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, as in GPT-2.
    Tanh,
}

/// Sizes of a GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gelu {
    form: Form,
    rows: usize,
    width: usize,
}

impl Gelu {
    /// GELUs of `rows` rows of `width` elements. Without a bias, rows may be cut anywhere.
    ///
    /// # Errors
    ///
    /// If `width` is zero or the sizes overflow.
    pub fn new(form: Form, rows: usize, width: usize) -> Result<Self, KernelError> {
        positive(KERNEL, "the width", width)?;
        elements(KERNEL, [rows, width])?;
        Ok(Self { form, rows, width })
    }

    /// Which function.
    #[must_use]
    pub const fn form(self) -> Form {
        self.form
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

    /// What forward, and recompute, does.
    #[must_use]
    pub const fn forward_cost(self) -> Cost {
        let n = self.elements();
        Cost::of(n + self.width, n, (12 + Cost::EXP) * n as u64)
    }

    /// What backward does.
    #[must_use]
    pub const fn backward_cost(self) -> Cost {
        let n = self.elements();
        Cost::of(
            2 * n + self.width,
            n + self.width,
            (16 + Cost::EXP) * n as u64,
        )
    }
}
