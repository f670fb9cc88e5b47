//! Shapes and types that several operations need.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape};

/// The type of the statistics of rows of such elements.
pub(super) fn statistics_of(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// Statistics that were computed in the elements' type, in their own.
pub(super) fn as_statistics<B: Backend>(computed: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = statistics_of(computed.dtype());
    cast::<B>(computed, dtype)
}

/// Statistics in the type of the elements that they are computed with.
pub(super) fn like<B: Backend>(
    statistics: FloatTensor<B>,
    input: &FloatTensor<B>,
) -> FloatTensor<B> {
    cast::<B>(statistics, input.dtype())
}

fn cast<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    if tensor.dtype() == dtype {
        tensor
    } else {
        B::float_cast(tensor, dtype.into())
    }
}

/// Elements of the last axis, and how many such rows there are.
pub(super) fn rows<B: Backend>(tensor: &FloatTensor<B>) -> (usize, usize) {
    let shape = tensor.shape();
    let width = shape[shape.num_dims() - 1];
    (shape.num_elements() / width.max(1), width)
}

/// The shape of `[..., width]` with one element instead of the last axis.
#[cfg(any(feature = "flex", feature = "wgpu", feature = "cuda"))]
pub(super) fn one_a_row(shape: &Shape) -> Shape {
    let mut dimensions = shape.to_vec();
    if let Some(last) = dimensions.last_mut() {
        *last = 1;
    }
    Shape::from(dimensions)
}

/// A vector as the last axis of a tensor of so many dimensions.
pub(super) fn as_last_axis<B: Backend>(
    vector: FloatTensor<B>,
    dimensions: usize,
) -> FloatTensor<B> {
    let mut shape = vec![1; dimensions];
    shape[dimensions - 1] = vector.shape().num_elements();
    B::float_reshape(vector, Shape::from(shape))
}

/// `tensor`, with a vector along its last axis added if there is one.
pub(super) fn shifted<B: Backend>(
    tensor: FloatTensor<B>,
    vector: Option<FloatTensor<B>>,
) -> FloatTensor<B> {
    match vector {
        Some(vector) => {
            let dimensions = tensor.shape().num_dims();
            B::float_add(tensor, as_last_axis::<B>(vector, dimensions))
        }
        None => tensor,
    }
}

/// The sum over all axes but the last. `[width]`
pub(super) fn sum_rows<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let (rows, width) = rows::<B>(&tensor);
    let tensor = B::float_reshape(tensor, Shape::from(vec![rows, width]));
    B::float_reshape(B::float_sum_dim(tensor, 0), Shape::from(vec![width]))
}
