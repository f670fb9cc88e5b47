//! `residual + dropout(input + bias)`: the end of both halves of a transformer layer.
//!
//! The mask is never stored: forward, recomputation and backward draw it again from its key, and
//! an element's fate depends on its position in `input` only or, where `input` is a slice, in the
//! whole tensor. It is what [`DropoutMask::fill`](crate::random::DropoutMask::fill) writes, bit for
//! bit. Forward and recomputation are one kernel.

mod definition;
mod kernel;
mod launch;

pub use definition::DropoutAddProblem;
pub use launch::{DropoutAddGradients, dropout_add, dropout_add_backward};
