//! The layer that runs tensors.
//!
//! From the bottom: [`ops`] adds to Burn what tapes need; a `tape` holds what autodiff keeps for
//! one segment; a `stage` turns boundaries into the next ones and gradients into the previous
//! ones; `comm` links stages; `exec` runs them on threads; a [`trainer`] is what a program uses, and a
//! `recorder` draws what it did; `save` writes its state to disk. [`measure`] runs the
//! same pieces to tell a planner what they cost.

mod accumulator;
pub(crate) mod boundary;
pub(crate) mod chain;
pub(crate) mod comm;
pub(crate) mod exec;
mod gradient;
pub mod measure;
pub mod memory;
pub mod nn;
pub mod ops;
mod parameters;
mod parcel;
pub(crate) mod recorder;
pub(crate) mod save;
pub(crate) mod stage;
pub(crate) mod tape;
pub(crate) mod trainer;
