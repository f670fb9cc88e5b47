//! A product with a weight, and its bias: `y = x w + bias`.
//!
//! | buffer | shape |
//! | --- | --- |
//! | `x`, `dx` | `[rows, inputs]` |
//! | `y`, `dy` | `[rows, outputs]` |
//! | `w` | `[inputs, outputs]`, or its transpose: see [`Stored`] |
//! | `dw` | `[inputs, outputs]` |
//! | `bias`, `dbias` | `[outputs]`, or none |
//!
//! All `f32`. The products are `gemm`'s, the crate that also multiplies for Burn's CPU backend; what is
//! gained is around them: the bias is added while a band of rows is in the cache, the result is where the
//! caller wants it and not copied there, and threads wait for each other once instead of in every
//! block. There is no twin for devices, where compilers fuse the bias into a product by themselves.

mod cpu;
pub mod reference;

#[cfg(test)]
mod tests;

pub use cpu::{bias_gradient, forward, input_gradient, weight_gradient};

use crate::cost::Cost;
use crate::error::{KernelError, elements, positive};

const KERNEL: &str = "linear";

/// How a weight lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stored {
    /// `[inputs, outputs]`
    ByInput,
    /// `[outputs, inputs]`, as of an embedding that scores tokens.
    ByOutput,
}

/// Sizes of a product with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    rows: usize,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    /// The product of `rows` rows with a weight of `inputs` by `outputs`.
    ///
    /// # Errors
    ///
    /// If `inputs` or `outputs` is zero or the sizes overflow.
    pub fn new(rows: usize, inputs: usize, outputs: usize) -> Result<Self, KernelError> {
        positive(KERNEL, "the number of inputs", inputs)?;
        positive(KERNEL, "the number of outputs", outputs)?;
        elements(KERNEL, [rows, inputs])?;
        elements(KERNEL, [rows, outputs])?;
        elements(KERNEL, [inputs, outputs])?;
        Ok(Self {
            rows,
            inputs,
            outputs,
        })
    }

    /// Rows of `x` and `y`.
    #[must_use]
    pub const fn rows(self) -> usize {
        self.rows
    }

    /// Elements of a row of `x`.
    #[must_use]
    pub const fn inputs(self) -> usize {
        self.inputs
    }

    /// Elements of a row of `y`.
    #[must_use]
    pub const fn outputs(self) -> usize {
        self.outputs
    }

    /// What forward, and recompute, does.
    #[must_use]
    pub const fn forward_cost(self) -> Cost {
        let (x, y) = (self.rows * self.inputs, self.rows * self.outputs);
        let w = self.inputs * self.outputs;
        Cost::of(x + w + self.outputs, y, self.product() + y as u64)
    }

    /// What the three gradients do together.
    #[must_use]
    pub const fn backward_cost(self) -> Cost {
        let (x, y) = (self.rows * self.inputs, self.rows * self.outputs);
        let w = self.inputs * self.outputs;
        Cost::of(
            w + x + 3 * y,
            x + w + self.outputs,
            2 * self.product() + y as u64,
        )
    }

    const fn product(self) -> u64 {
        2 * self.rows as u64 * self.inputs as u64 * self.outputs as u64
    }
}
