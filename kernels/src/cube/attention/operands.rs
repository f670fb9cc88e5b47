//! Where a `[batch, heads, seq, head_dim]` operand lies, and the checks on it.

use cubecl::{ir::ElemType, prelude::*, server::Handle, std::tensor::TensorHandle};

use super::super::{
    CubeError,
    operand::{MAX_VECTOR, float, shape, typed},
};

/// Where the first element lies and distances between neighbours, in vectors. The elements of a head
/// are next to each other.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Layout {
    first: usize,
    batch: usize,
    head: usize,
    pub(super) position: usize,
}

#[cube]
impl Layout {
    /// Where the first position of a head lies; `heads` of them make a batch.
    pub(super) fn start(&self, head: usize, heads: usize) -> usize {
        self.first + (head / heads) * self.batch + (head % heads) * self.head
    }
}

/// An operand that a kernel reads or writes by its strides.
pub(super) struct Strided<'a> {
    tensor: &'a TensorHandle,
    /// What the device can bind: it begins where the device's alignment allows,
    handle: Handle,
    /// and the tensor so many elements later.
    first: usize,
}

impl<'a> Strided<'a> {
    pub(super) fn new(client: &Client, tensor: &'a TensorHandle) -> Self {
        let mut handle = tensor.handle.clone();
        let start = handle.offset_start.unwrap_or(0);
        let beyond = start % client.properties().memory.alignment.max(1);
        handle.offset_start = Some(start - beyond);
        Self {
            tensor,
            handle,
            first: beyond as usize / tensor.dtype.size(),
        }
    }

    pub(super) fn layout(&self, lanes: usize) -> LayoutLaunch {
        let strides = self.tensor.strides();
        let [batch, head, position] = [strides[0], strides[1], strides[2]].map(|s| s / lanes);
        LayoutLaunch::new(self.first / lanes, batch, head, position)
    }

    /// The buffer up to the last element that the strides reach.
    pub(super) fn buffer(&self) -> BufferArg {
        // SAFETY: the extent is that of the tensor that the handle belongs to, and of what lies
        // before it in the same memory.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.extent()) }
    }

    pub(super) fn extent(&self) -> usize {
        let pairs = self.tensor.shape().iter().zip(self.tensor.strides().iter());
        let last = pairs.map(|(size, stride)| (size - 1) * stride);
        self.first + last.sum::<usize>() + 1
    }

    fn vectorises(&self, lanes: usize) -> bool {
        let bytes = (lanes * self.tensor.dtype.size()) as u64;
        let start = self.tensor.handle.offset_start.unwrap_or(0);
        start.is_multiple_of(bytes)
            && self.tensor.strides()[..3]
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
                    .all(|tensor| Strided::new(client, tensor).vectorises(lanes))
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
