//! Burn on a device of wgpu against Burn on the CPU: the fused operations, and whole steps.
//!
//! Without a device all tests pass and say that they skipped, unless `LYNX_REQUIRE_DEVICE` is set. Where
//! there is no GPU, Mesa's lavapipe is one.

mod compare;
mod device;
mod half;
mod net;
mod operations;
mod streams;
mod training;
mod values;
