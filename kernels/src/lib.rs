//! Kernels for activation recomputation.
//!
//! A recompute kernel is allowed to know what the first forward knew. The first thing it has to
//! know is *chance*: a dropout mask must come out the same in the forward pass, in its
//! recomputation and in the backward pass, on any thread and in any order, and must not be
//! stored. So random numbers here are a pure function of a key and a position, never a state that
//! advances:
//!
//! - [`random::Philox4x32`] is the generator: 128 bits of counter and 64 bits of key in, 128
//!   random bits out (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011);
//! - [`random::StreamKey`] names one stream of numbers by seed, step, micro-batch, segment and
//!   site;
//! - [`random::fill_dropout_mask`] and [`random::fill_normal`] turn a stream into values, in
//!   parallel and independently of the number of threads.
//!
//! With the feature `cube`, the module of that name holds the kernels for devices, written in
//! CubeCL: dropout, layer norm, GELU, attention and cross-entropy. `wgpu`, `vulkan` and `cuda` bring
//! a runtime with them.
//!
//! This crate knows no Burn type. `lynx-burn` wraps it in Burn operations.

#[cfg(feature = "cube")]
pub mod cube;
pub mod random;
