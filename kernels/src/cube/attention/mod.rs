//! Causal attention whose `seq x seq` matrix never exists.
//!
//! Forward goes through the keys in tiles and keeps, for every query, the output and the
//! log-sum-exp of its scores: memory is linear in the sequence. Backward needs the probabilities
//! again, and makes a tile of them from queries, keys and the log-sum-exp whenever it uses one; it
//! has one kernel for the queries' gradients and one for those of keys and values, so that nothing
//! is added atomically and the same operands give the same bits. The dropout mask on the
//! probabilities is drawn again from its counter in every kernel: element
//! `[batch, head, query, key]` of a contiguous tensor, or of the whole one that a rank has some heads
//! of, has the fate that [`DropoutMask::fill`](crate::random::DropoutMask::fill) gives it.
//!
//! Recomputing the *output* is the forward kernel once more. A shorter pass from the log-sum-exp
//! would skip the running maximum, which is little beside the two products, and it would round
//! differently: the online softmax rescales its sum whenever the maximum grows.
//!
//! What `cubek-attention` 0.3.1 offers was weighed first. Its forward uses tensor cores, but does not
//! give the log-sum-exp; its backward is for `f32` only, reads everything from global memory with
//! one unit a row, and neither of them has dropout. So these kernels are written anew: in tiles in
//! shared memory, in `f32`, and, unlike that forward, without tensor cores.
//!
//! Queries, keys and values may be views of one `[batch, seq, 3 * width]` tensor: strides are
//! followed. Outputs and gradients are `[batch, heads, seq, head_dim]` too, laid out as
//! `[batch, seq, heads, head_dim]`, so that joining the heads for the projection copies nothing.

mod backward;
mod blueprint;
mod definition;
mod dropout;
mod forward;
mod launch;
mod operands;
mod options;
mod tile;

pub use blueprint::AttentionBlueprint;
pub use definition::AttentionProblem;
pub use launch::{AttentionGradients, AttentionOutput, attention, attention_backward};
pub use options::AttentionOptions;
