//! The device kernels against naive `f64` references, on whatever device the build reaches: Mesa's
//! lavapipe in CI (`--features wgpu`), a GPU through Vulkan or CUDA elsewhere.
//!
//! Without a device the tests pass with a message, unless `LYNX_REQUIRE_DEVICE` is set.

mod attention;
mod attention_parts;
mod cross_entropy;
mod dropout_add;
mod errors;
mod gelu;
mod harness;
mod layer_norm;
mod tolerance;
