//! Kernels for devices, written in CubeCL.
//!
//! Recomputing on a device means running a segment's forward again while something else is
//! waited for. These kernels make that cheaper than a forward and give the same bits: a layer norm
//! is replayed from its mean and reciprocal standard deviation, without a reduction; a dropout
//! mask is drawn again from the counter; attention's probabilities come back from the
//! log-sum-exp of their row, and the `seq x seq` matrix never exists.
//!
//! Each folder holds one kernel in the parts that `cubek` uses too: the definition (shapes, bytes
//! moved, operations), the kernel, and the launch, which checks its operands and never panics on
//! them. All of them
//!
//! - take and return [`TensorHandle`]s, the tensors of CubeCL's and of Burn's runtimes;
//! - copy an operand that is not contiguous, except attention, which follows the strides of
//!   batch, head and position;
//! - hold elements as `f32`, `f16` or `bf16`, compute in `f32`, and keep row statistics as `f32`;
//! - use no atomics, so that the same operands on the same device give the same bits.
//!
//! They are enqueued on the calling thread's stream and return at once. What a device reports
//! later, such as an exhausted memory, surfaces where its result is read.
//!
//! [`TensorHandle`]: cubecl::std::tensor::TensorHandle

pub mod attention;
pub mod cross_entropy;
pub mod dropout_add;
mod error;
pub mod gelu;
pub mod layer_norm;
mod operand;
mod philox;
mod reduce;

pub use cubecl;
pub use error::CubeError;
