//! Cross-entropy over a vocabulary, without a softmax in memory.
//!
//! Forward keeps the log-sum-exp of each row, four bytes instead of a row of probabilities;
//! backward makes each probability again where its gradient is needed, if asked to in the place of
//! the logits themselves. Rows do not depend on each other, so the logits of a long batch need not
//! exist at once either: take [`CrossEntropyProblem::rows_within`] rows at a time, multiply them
//! out, and call forward and the backward in place on that chunk.
//!
//! A target outside of the vocabulary, such as -1 for padding, takes no part: loss and gradient of
//! its row are zero.

mod definition;
mod kernel;
mod launch;

pub use definition::CrossEntropyProblem;
pub use launch::{
    CrossEntropyOutput, cross_entropy, cross_entropy_backward, cross_entropy_backward_in_place,
};
