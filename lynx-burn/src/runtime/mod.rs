//! The layer that runs tensors.
//!
//! From the bottom: [`ops`] adds to Burn what tapes need; a `tape` holds what autodiff keeps for
//! one segment; a `stage` turns boundaries into the next ones and gradients into the previous
//! ones; `comm` links stages and ranks, and `shard` slices parameters for the latter; `exec` runs
//! them on threads; a [`trainer`] is what a program uses, a `recorder` draws what it did, and `save`
//! writes its state to disk. [`measure`] runs the
//! same pieces to tell a planner what they cost, and `learner` puts a trainer under Burn's `Learner`.

mod accumulator;
pub(crate) mod boundary;
pub(crate) mod chain;
pub(crate) mod comm;
pub(crate) mod exec;
mod gradient;
#[cfg(feature = "train")]
pub mod learner;
pub mod measure;
pub mod memory;
pub mod nn;
pub mod ops;
mod parameters;
mod parcel;
pub(crate) mod recorder;
pub(crate) mod save;
pub(crate) mod shard;
pub(crate) mod stage;
mod streams;
pub(crate) mod tape;
pub(crate) mod trainer;
