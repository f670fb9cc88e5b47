//! Profiles as JSON, for people and for programs that are not Burn.
//!
//! The smallest useful file has one kind of layer with one segment:
//!
//! ```json
//! {
//!   "name": "toy",
//!   "tensor_parallel": 1,
//!   "embedding": [],
//!   "kinds": [{
//!     "name": "layer",
//!     "segments": [{
//!       "name": "all",
//!       "forward_ns": 1000000,
//!       "backward_input_ns": 2000000,
//!       "recompute_ns": 1000000,
//!       "tape_bytes": 340000000,
//!       "kept_input_bytes": 20000000,
//!       "boundary_bytes": 20000000
//!     }]
//!   }],
//!   "layers": [{ "kind": "layer", "count": 24 }],
//!   "head": []
//! }
//! ```
//!
//! What is not there is nothing: no collectives, weights, workspace, or notes.

use std::path::Path;

use super::error::ProfileError;
use super::model::ModelProfile;
use crate::plan::cluster::{self, FileError, JsonError};

impl ModelProfile {
    /// Reads a profile in JSON and checks it.
    pub fn from_json(text: &str) -> Result<Self, JsonError<ProfileError>> {
        cluster::from_text(text, Self::validate)
    }

    /// The profile in JSON. Refuses what [`ModelProfile::from_json`] would not read.
    pub fn to_json(&self) -> Result<String, JsonError<ProfileError>> {
        cluster::to_text(self, Self::validate)
    }

    /// Reads a profile from a JSON file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileError<ProfileError>> {
        cluster::read(path.as_ref(), Self::from_json)
    }

    /// Writes the profile to a JSON file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), FileError<ProfileError>> {
        cluster::write(path.as_ref(), self.to_json())
    }
}
