//! Layer norm that remembers the mean and the reciprocal standard deviation of its rows.
//!
//! With these eight bytes a row, a recomputation needs no reduction: every element of the output
//! follows from its own input alone, and comes out with the same bits, because forward and
//! recomputation share the one expression that makes an output. Backward reads the saved values
//! too, and makes all three gradients in one pass over its operands.

mod backward;
mod definition;
mod forward;
mod launch;

pub use definition::LayerNormProblem;
pub use launch::{
    LayerNormGradients, LayerNormOutput, layer_norm, layer_norm_backward, layer_norm_recompute,
};
