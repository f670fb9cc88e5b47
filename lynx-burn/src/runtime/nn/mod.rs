//! Modules that may be recomputed where Burn's own may not.

mod dropout;

pub use dropout::{Dropout, DropoutConfig};
