//! Where a `[batch, heads, seq, head_dim]` operand lies, and the checks on it.

use cubecl::{ir::ElemType, prelude::*, std::tensor::TensorHandle};

use super::super::{
    CubeError,
    operand::{MAX_VECTOR, float, shape, typed},
};

/// Distances between neighbours, in vectors. The elements of a head are next to each other.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Layout {
    batch: usize,
    head: usize,
    pub(super) position: usize,
}

#[cube]
impl Layout {
    /// Where the first position of a head lies; `heads` of them make a batch.
    pub(super) fn start(&self, head: usize, heads: usize) -> usize {
        (head / heads) * self.batch + (head % heads) * self.head
    }
}

/// An operand that a kernel reads or writes by its strides.
pub(super) struct Strided<'a>(pub(super) &'a TensorHandle);

impl Strided<'_> {
    pub(super) fn layout(&self, lanes: usize) -> LayoutLaunch {
        let strides = self.0.strides();
        LayoutLaunch::new(strides[0] / lanes, strides[1] / lanes, strides[2] / lanes)
    }

    /// The buffer up to the last element that the strides reach.
    pub(super) fn buffer(&self) -> BufferArg {
        let extent = self.extent();
        // SAFETY: the extent is that of the tensor that the handle belongs to.
        unsafe { BufferArg::from_raw_parts(self.0.handle.clone(), extent) }
    }

    pub(super) fn extent(&self) -> usize {
        let pairs = self.0.shape().iter().zip(self.0.strides().iter());
        1 + pairs
            .map(|(size, stride)| (size - 1) * stride)
            .sum::<usize>()
    }

    fn vectorises(&self, lanes: usize) -> bool {
        let bytes = (lanes * self.0.dtype.size()) as u64;
        let start = self.0.handle.offset_start.unwrap_or(0);
        start.is_multiple_of(bytes)
            && self.0.strides()[..3]
                .iter()
                .all(|s| s.is_multiple_of(lanes))
    }
}

/// The most elements of a head that can be read at once from all of `tensors`.
pub(super) fn lanes(client: &Client, head_dim: usize, tensors: &[&TensorHandle]) -> usize {
    let size = tensors.first().map_or(4, |tensor| tensor.dtype.size());
    client
        .io_optimized_vector_sizes(size)
        .filter(|&lanes| {
            lanes <= MAX_VECTOR
                && head_dim.is_multiple_of(lanes)
                && tensors
                    .iter()
                    .all(|tensor| Strided(tensor).vectorises(lanes))
        })
        .max()
        .unwrap_or(1)
}

/// Checks the first operand, and returns its four dimensions.
pub(super) fn first(
    client: &Client,
    operand: &'static str,
    tensor: &TensorHandle,
) -> Result<[usize; 4], CubeError> {
    float(client, operand, tensor)?;
    let Ok(dimensions) = <[usize; 4]>::try_from(tensor.shape().as_ref()) else {
        return Err(CubeError::Rank {
            operand,
            found: tensor.shape().to_vec(),
            expected: "4",
        });
    };
    readable(operand, tensor)?;
    Ok(dimensions)
}

/// Checks an operand like the first.
pub(super) fn alike(
    client: &Client,
    operand: &'static str,
    tensor: &TensorHandle,
    dimensions: &[usize],
    dtype: ElemType,
) -> Result<(), CubeError> {
    typed(client, operand, tensor, dtype)?;
    shape(operand, tensor, dimensions)?;
    readable(operand, tensor)
}

fn readable(operand: &'static str, tensor: &TensorHandle) -> Result<(), CubeError> {
    if tensor.strides()[3] == 1 || tensor.shape()[3] == 1 {
        Ok(())
    } else {
        Err(CubeError::Strides {
            operand,
            found: tensor.strides().to_vec(),
            expected: "contiguous in its last dimension",
        })
    }
}

/// A `[batch, heads, seq, head_dim]` tensor that lies as `[batch, seq, heads, head_dim]`.
pub(super) fn by_position(
    client: &Client,
    [batch, heads, seq, head_dim]: [usize; 4],
    dtype: ElemType,
) -> TensorHandle {
    let elements = batch * heads * seq * head_dim;
    let strides = [heads * seq * head_dim, head_dim, heads * head_dim, 1];
    TensorHandle::new(
        client.empty(elements * dtype.size()),
        [batch, heads, seq, head_dim],
        strides.as_slice(),
        dtype,
    )
}
