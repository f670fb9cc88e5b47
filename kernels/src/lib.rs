//! Kernels for activation recomputation, and their CPU twins.
//!
//! A recompute kernel is allowed to know what the first forward knew: the mean and deviation that a
//! layer norm found, the log-sum-exp of attention scores, and *chance*. So a recompute costs less
//! than a forward, and gives the same bits.
//!
//! Each kernel is a folder with its definition (shapes, what is kept, bytes and operations), a
//! naive reference in `f64`, and a CPU twin on slices:
//!
//! | kernel | forward keeps | recompute | backward |
//! | --- | --- | --- | --- |
//! | [`layer_norm`] | mean, rstd | no reductions | fused |
//! | [`gelu`] with bias | nothing | forward | fused |
//! | [`dropout_add`] with bias and residual | nothing | forward | fused |
//! | [`attention`] | log-sum-exp | weights from it | without the matrix |
//! | [`cross_entropy`] | log-sum-exp | - | without the softmax |
//! | [`linear`] with bias | nothing | forward | three products |
//!
//! The CPU twins run on rayon's threads and give the same bits on any number of them: work is cut
//! by sizes alone, and sums are added in a fixed order. Inner loops are written so that the
//! compiler makes vector instructions of them. Buffers of another length than the shape's are a
//! [`KernelError`], never a panic.
//!
//! What tests allow between a CPU twin and its reference, as a share of the largest expected
//! magnitude unless said otherwise:
//!
//! | result | tolerance | reason |
//! | --- | --- | --- |
//! | layer norm | 2e-6 | sums of a row in `f32`; an offset of `k` deviations takes `k` times more |
//! | its gradients | 1e-5 | two sums that cancel |
//! | GELU | 1e-6 | exponential and fitted tail, a few units in the last place |
//! | its derivative | 2e-6 | one minus the logistic function, times up to ten |
//! | dropout and add | 2e-7 | one rounding |
//! | attention | 2e-6 and 4e-6 (gradient) | times the square of the inputs' deviation: an absolute error of a score is a relative one of its weight |
//! | cross-entropy | 3e-7 of the largest score | a difference of scores |
//! | products with a weight | 3e-6 | sums of up to a thousand terms |
//! | column sums (`dbias`) | 1e-5 | hundreds of terms whose signs cancel |
//! | recompute, other numbers of threads | 0 | the same operations in the same order |
//!
//! [`random`] is counter-based: a value is a pure function of a key and a position, never of a state
//! that advances. A dropout mask comes out the same in forward, recompute and backward, on any
//! thread and in any order, and is never stored.
//!
//! With the feature `cube`, the module of that name holds the kernels for devices, written in
//! CubeCL: dropout, layer norm, GELU, attention and cross-entropy. `wgpu`, `vulkan` and `cuda` bring
//! a runtime with them.
//!
//! This crate knows no Burn type. `lynx-burn` wraps it in Burn operations.

pub mod attention;
mod bands;
mod cost;
pub mod cross_entropy;
#[cfg(feature = "cube")]
pub mod cube;
pub mod dropout_add;
mod error;
pub mod gelu;
pub mod layer_norm;
pub mod linear;
mod matrix;
pub mod random;
#[cfg(test)]
mod testing;
mod vector;

pub use cost::Cost;
pub use error::KernelError;
