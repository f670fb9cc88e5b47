//! The layer that runs tensors.
//!
//! From the bottom: [`ops`] adds to Burn what tapes need; a `tape` holds what autodiff keeps for
//! one segment; a `stage` turns boundaries into the next ones and gradients into the previous
//! ones; `exec` runs stages on threads; a [`trainer`] is what a program uses.

mod accumulator;
pub mod boundary;
pub mod chain;
pub mod exec;
mod gradient;
pub mod memory;
pub mod nn;
pub mod ops;
mod parameters;
pub mod stage;
mod tape;
pub mod trainer;
