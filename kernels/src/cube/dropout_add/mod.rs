//! `residual + dropout(input + bias)`: the end of both halves of a transformer layer.
//!
//! The mask is never stored: forward, recomputation and backward draw it again from its key, and
//! an element's fate depends on its position in `input` only. It is the mask that
//! [`fill_dropout_mask`](crate::random::fill_dropout_mask) writes, bit for bit. Forward and
//! recomputation are one kernel.

mod definition;
mod kernel;
mod launch;

pub use definition::DropoutAddProblem;
pub use launch::{DropoutAddGradients, dropout_add, dropout_add_backward};
