//! Gradients: one kernel for those of the queries, one for those of keys and values, and a small
//! one before them that puts the two numbers they need of every query side by side: the
//! log-sum-exp, and `delta`, the product of output and its gradient.
//!
//! With `P` the probabilities, `M` the dropout mask, `g` the output's gradient:
//! `dV = (P M)^T g`, `dS = P ((g V^T) M - delta)`, `dQ = dS K`, `dK = dS^T Q`, the last two scaled.
//! The dropout does not show in `delta`, because it is already in the output.

mod keys_values;
mod queries;
mod statistics;

pub(super) use keys_values::of_keys_and_values;
pub(super) use queries::of_queries;
pub(super) use statistics::query_statistics;
