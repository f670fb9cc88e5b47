//! Decisions as data: what the chain looks like, which stage holds what, what
//! is recomputed, and in which order every stage works.
//!
//! This layer exists so that a plan can be made, checked, written to a file,
//! read by a person and simulated without a tensor or a thread anywhere. It
//! does not run anything: the runtime takes these values and obeys them.

pub mod layout;
pub mod partition;
pub mod policy;
pub mod schedule;
