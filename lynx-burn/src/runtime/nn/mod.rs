//! Modules that may be recomputed where Burn's own may not, or cost less than Burn's own.
//!
//! Those that Burn has too take its shapes, initial values and record names, so that a model can
//! change from one to the other and load the same weights.

mod attention;
mod dropout;
mod gelu;
mod linear;
mod loss;
mod norm;
#[cfg(all(test, feature = "flex"))]
mod tests;

pub use attention::{CausalSelfAttention, CausalSelfAttentionConfig};
pub use dropout::{Dropout, DropoutConfig};
pub use gelu::Gelu;
pub use linear::{Linear, LinearConfig, linear};
pub use loss::{CrossEntropyLoss, CrossEntropyLossConfig};
pub use norm::{LayerNorm, LayerNormConfig};
