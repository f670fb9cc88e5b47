//! Decisions as data: what the chain looks like, which stage holds what, what
//! is recomputed, and in which order every stage works.
//!
//! [`layout`], [`partition`], [`policy`], [`advance`] and [`schedule`] are what
//! the runtime obeys. [`profile`] and [`cluster`] say what segments cost and what machines
//! can do, [`planner`] decides with them, and [`sim`] tells the time and memory
//! of what was decided.
//!
//! This layer exists so that a plan can be made, checked, written to a file,
//! read by a person and simulated without a tensor or a thread anywhere. It
//! does not run anything: the runtime takes these values and obeys them.

pub mod advance;
pub mod cluster;
pub mod forecast;
pub mod layout;
pub mod partition;
pub mod planner;
pub mod policy;
pub mod profile;
pub mod schedule;
pub mod sim;
