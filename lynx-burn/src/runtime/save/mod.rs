//! Saves: a trainer's state on disk, to go on from after whatever ended it.
//!
//! A save is a folder of four files. `weights.safetensors` has every parameter once, under its path
//! in the model, however many stages held it: any program that reads safetensors can read it.
//! `optimizer.bpk` is the optimizer's state under the same paths, `about.json` what the program that
//! saved wanted to remember, and `save.json` the step, the seed, and every other file's length and
//! checksum.
//!
//! Nothing in a save depends on the partition, the ranks, the schedule or the policy, so a trainer cut
//! and recomputing otherwise can go on from it. Gradients that were added up and not applied are not
//! saved: a save is of the moment between two steps.
//!
//! - [`folder`] keeps saves beside each other, the newest of them whole at every instant;
//! - [`draft`] is a save being written, [`found`] one being read, [`manifest`] what seals it;
//! - [`weights`] and [`states`] are the two big files; [`slices`] makes them whole where several ranks
//!   share a stage.

mod draft;
mod error;
mod folder;
mod found;
mod manifest;
mod slices;
pub(crate) mod states;
pub(crate) mod weights;

pub use error::{LoadError, SaveError};
pub use folder::Saves;
pub use found::Save;

/// The parameters.
const WEIGHTS: &str = "weights.safetensors";
/// The optimizer's state.
const STATES: &str = "optimizer.bpk";
/// What the program added.
const ABOUT: &str = "about.json";
/// What seals the others.
const MANIFEST: &str = "save.json";

#[cfg(all(test, feature = "flex"))]
mod tests;
