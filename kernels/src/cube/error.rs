//! Why a kernel was not launched.

use cubecl::ir::ElemType;

use crate::random::RowSlice;

/// A kernel was asked for what it cannot do. Nothing was launched.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CubeError {
    /// The shape does not go with that of the other operands.
    #[error("{operand} has shape {found:?} instead of {expected:?}")]
    Shape {
        /// Name of the operand.
        operand: &'static str,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that the other operands ask for.
        expected: Vec<usize>,
    },
    /// The number of dimensions is wrong.
    #[error("{operand} of shape {found:?} does not have {expected} dimensions")]
    Rank {
        /// Name of the operand.
        operand: &'static str,
        /// Its shape.
        found: Vec<usize>,
        /// How many dimensions there have to be, in words.
        expected: &'static str,
    },
    /// The operand has no elements.
    #[error("{operand} of shape {found:?} is empty")]
    Empty {
        /// Name of the operand.
        operand: &'static str,
        /// Its shape.
        found: Vec<usize>,
    },
    /// The operand lies in memory as the kernel cannot read or write it.
    #[error("{operand} has strides {found:?} instead of being {expected}")]
    Strides {
        /// Name of the operand.
        operand: &'static str,
        /// Its strides, in elements.
        found: Vec<usize>,
        /// What they have to be, in words.
        expected: &'static str,
    },
    /// The operand has the wrong kind of elements.
    #[error("{operand} holds {found} instead of {expected}")]
    DType {
        /// Name of the operand.
        operand: &'static str,
        /// Its elements.
        found: ElemType,
        /// What they have to be, in words.
        expected: String,
    },
    /// The device has no such elements.
    #[error("{device} cannot hold {dtype} in buffers")]
    Unsupported {
        /// Name of the runtime.
        device: &'static str,
        /// The elements.
        dtype: ElemType,
    },
    /// The operand lies on another device than the client's.
    #[error("{operand} lies on {found}, the kernel runs on {expected}")]
    Device {
        /// Name of the operand.
        operand: &'static str,
        /// Where it lies.
        found: String,
        /// The client's device.
        expected: String,
    },
    /// A dimension, or a number of elements, exceeds what the kernel or the device can do.
    #[error("{what} is {found}, at most {limit} is possible here")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The dropout mask is of a part of a larger tensor that the operand cannot be.
    #[error("the mask's slice {found:?} is not {expected}")]
    Slice {
        /// The slice.
        found: RowSlice,
        /// What it has to be, in words.
        expected: &'static str,
    },
    /// A number makes no sense.
    #[error("{what} is {found}, which is not {expected}")]
    Value {
        /// What the number stands for.
        what: &'static str,
        /// The number.
        found: f64,
        /// What it has to be, in words.
        expected: &'static str,
    },
}
