//! Flex's tensors as the kernels take them.

use std::mem::MaybeUninit;

use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, Shape, TensorData};
use lynx_kernels::{KernelError, attention};
use rayon::prelude::*;

use super::super::Optional;

/// A tensor that a kernel can read.
pub(super) struct Input(FlexTensor);

impl Input {
    pub(super) fn new(tensor: FlexTensor) -> Self {
        Self(tensor.to_contiguous())
    }

    pub(super) fn optional(tensor: Optional<Flex>) -> Option<Self> {
        tensor.option().map(Self::new)
    }

    pub(super) fn read(&self) -> &[f32] {
        self.0
            .as_slice()
            .expect("contiguous 32-bit floats were asked for")
    }
}

/// A buffer that a kernel writes.
///
/// The zeros are nobody's, but memory must be something before it may be written through a slice; all
/// threads share the work of filling it. (A zeroed allocation is no way out: of memory that was in use
/// before, it is a `memset` on one thread.)
pub(super) fn buffer(elements: usize) -> Vec<f32> {
    /// What one task fills: half a second-level cache or so.
    const PIECE: usize = 1 << 16;
    let mut buffer = Vec::with_capacity(elements);
    buffer.spare_capacity_mut()[..elements]
        .par_chunks_mut(PIECE)
        .for_each(|piece| piece.fill(MaybeUninit::new(0.0)));
    // SAFETY: the capacity is at least `elements`, and that many were just written.
    unsafe { buffer.set_len(elements) };
    buffer
}

pub(super) fn tensor(values: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// Whether the kernels know the type.
pub(super) fn known(tensor: &FlexTensor) -> bool {
    tensor.dtype() == DType::F32
}

/// What Burn does with shapes that do not fit: modules say so in their documentation.
pub(super) fn fitting<T>(result: Result<T, KernelError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn attention_sizes(qkv: &FlexTensor, heads: usize) -> attention::Attention {
    let shape = qkv.shape();
    let d_head = shape[2] / (3 * heads.max(1));
    fitting(attention::Attention::new(shape[0], shape[1], heads, d_head))
}

/// Targets as the kernel takes them, whatever integers the device has.
pub(super) fn classes_of(targets: FlexTensor) -> Vec<i64> {
    targets.into_data().iter::<i64>().collect()
}
