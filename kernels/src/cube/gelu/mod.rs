//! `gelu(input + bias)`: the element-wise part between the two products of a transformer's MLP.
//!
//! Forward and recomputation are one kernel: there is nothing to remember but the input. Backward
//! makes the derivative and multiplies in one pass, and sums the columns for the bias beside it.

mod definition;
mod function;
mod kernel;
mod launch;

pub use crate::gelu::Form as GeluKind;
pub use definition::BiasGeluProblem;
pub use launch::{BiasGeluGradients, bias_gelu, bias_gelu_backward};
