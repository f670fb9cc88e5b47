//! Cross-entropy of scores against the class that came: `-log softmax(logits)[target]`.
//!
//! | buffer | shape | kept by whom |
//! | --- | --- | --- |
//! | `logits`, `dlogits` | `[rows, classes]`, `f32` | the model |
//! | `targets` | `[rows]`, `i64` | the data; [`IGNORED`] leaves a row out |
//! | `losses` | `[rows]`, `f32` | nobody: their mean is the loss |
//! | `lse` | `[rows]`, `f32` | forward, for backward |
//!
//! The softmax is never stored: backward makes it from the logits and their log-sum-exp, a band of
//! rows at a time.

mod cpu;
pub mod reference;

#[cfg(test)]
mod tests;

pub use cpu::{backward, forward};

use crate::cost::Cost;
use crate::error::{KernelError, elements, positive};

const KERNEL: &str = "cross-entropy";

/// The target of a row that does not count.
pub const IGNORED: i64 = -1;

/// Sizes of a cross-entropy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossEntropy {
    rows: usize,
    classes: usize,
}

impl CrossEntropy {
    /// `rows` choices among `classes`.
    ///
    /// # Errors
    ///
    /// If there are no classes or the sizes overflow.
    pub fn new(rows: usize, classes: usize) -> Result<Self, KernelError> {
        positive(KERNEL, "the number of classes", classes)?;
        elements(KERNEL, [rows, classes])?;
        Ok(Self { rows, classes })
    }

    /// Choices.
    #[must_use]
    pub const fn rows(self) -> usize {
        self.rows
    }

    /// Classes of each.
    #[must_use]
    pub const fn classes(self) -> usize {
        self.classes
    }

    /// Elements of `logits`.
    #[must_use]
    pub const fn elements(self) -> usize {
        self.rows * self.classes
    }

    /// What forward does.
    #[must_use]
    pub const fn forward_cost(self) -> Cost {
        let n = self.elements();
        Cost::of(n + 2 * self.rows, 2 * self.rows, (3 + Cost::EXP) * n as u64)
    }

    /// What backward does.
    #[must_use]
    pub const fn backward_cost(self) -> Cost {
        let n = self.elements();
        Cost::of(n + 3 * self.rows, n, (2 + Cost::EXP) * n as u64)
    }

    /// Refuses targets that are neither a class nor [`IGNORED`]; returns how many rows count.
    fn counted(self, targets: &[i64]) -> Result<usize, KernelError> {
        let mut counted = 0;
        for (row, &target) in targets.iter().enumerate() {
            match usize::try_from(target) {
                Ok(class) if class < self.classes => counted += 1,
                _ if target == IGNORED => {}
                _ => {
                    return Err(KernelError::Target {
                        row,
                        target,
                        classes: self.classes,
                    });
                }
            }
        }
        Ok(counted)
    }
}
