//! Burn's pure-Rust CPU backend.

use burn::backend::Flex;

use super::RecomputeOps;

impl RecomputeOps for Flex {}
