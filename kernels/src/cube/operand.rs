//! Checks and layouts that all launches share.

use cubecl::{
    calculate_cube_count_elemwise,
    features::TypeUsage,
    ir::{ElemType, FloatKind},
    prelude::*,
    std::tensor::{TensorHandle, into_contiguous, is_contiguous},
};

use super::CubeError;

/// Elements that one unit reads at once. Four is sixteen bytes of `f32`, and one Philox block.
pub(super) const MAX_VECTOR: usize = 4;

/// `f32`, as the type of statistics.
pub(super) const F32: ElemType = ElemType::Float(FloatKind::F32);

/// Checks that the kernel can read `tensor` as numbers on the client's device.
pub(super) fn float(
    client: &Client,
    operand: &'static str,
    tensor: &TensorHandle,
) -> Result<(), CubeError> {
    on_device(client, operand, tensor)?;
    let dtype = tensor.dtype;
    if !matches!(
        dtype,
        ElemType::Float(FloatKind::F32 | FloatKind::F16 | FloatKind::BF16)
    ) {
        return Err(wrong_dtype(operand, dtype, "f32, f16 or bf16"));
    }
    let uses = client.features().type_usage(dtype);
    if uses.contains(TypeUsage::Buffer) && uses.contains(TypeUsage::Conversion) {
        Ok(())
    } else {
        Err(CubeError::Unsupported {
            device: client.name(),
            dtype,
        })
    }
}

/// Checks that `tensor` has the elements `dtype`.
pub(super) fn typed(
    client: &Client,
    operand: &'static str,
    tensor: &TensorHandle,
    dtype: ElemType,
) -> Result<(), CubeError> {
    on_device(client, operand, tensor)?;
    if tensor.dtype == dtype {
        Ok(())
    } else {
        Err(wrong_dtype(operand, tensor.dtype, &dtype.to_string()))
    }
}

/// Checks that `tensor` has one of the integer types `kinds`, and the device too.
pub(super) fn integer(
    client: &Client,
    operand: &'static str,
    tensor: &TensorHandle,
    kinds: &[ElemType],
) -> Result<(), CubeError> {
    on_device(client, operand, tensor)?;
    let dtype = tensor.dtype;
    if !kinds.contains(&dtype) {
        let names: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        return Err(wrong_dtype(operand, dtype, &names.join(" or ")));
    }
    if client
        .features()
        .type_usage(dtype)
        .contains(TypeUsage::Buffer)
    {
        Ok(())
    } else {
        Err(CubeError::Unsupported {
            device: client.name(),
            dtype,
        })
    }
}

fn wrong_dtype(operand: &'static str, found: ElemType, expected: &str) -> CubeError {
    CubeError::DType {
        operand,
        found,
        expected: expected.to_owned(),
    }
}

fn on_device(
    client: &Client,
    operand: &'static str,
    tensor: &TensorHandle,
) -> Result<(), CubeError> {
    let (found, expected) = (tensor.handle.service, client.service_id());
    if found != expected {
        return Err(CubeError::Device {
            operand,
            found: found.to_string(),
            expected: expected.to_string(),
        });
    }
    if tensor.shape().iter().product::<usize>() == 0 {
        return Err(CubeError::Empty {
            operand,
            found: tensor.shape().to_vec(),
        });
    }
    Ok(())
}

/// Checks that `tensor` has the shape that the others ask for.
pub(super) fn shape(
    operand: &'static str,
    tensor: &TensorHandle,
    expected: &[usize],
) -> Result<(), CubeError> {
    if tensor.shape().as_ref() == expected {
        Ok(())
    } else {
        Err(CubeError::Shape {
            operand,
            found: tensor.shape().to_vec(),
            expected: expected.to_vec(),
        })
    }
}

/// Rows and width of `tensor`, whose last dimension is a row.
pub(super) fn rows(
    operand: &'static str,
    tensor: &TensorHandle,
) -> Result<(usize, usize), CubeError> {
    match tensor.shape().last() {
        Some(&width) => Ok((tensor.shape().iter().product::<usize>() / width, width)),
        None => Err(CubeError::Rank {
            operand,
            found: Vec::new(),
            expected: "at least 1",
        }),
    }
}

/// Checks that the device can address `elements` of them.
pub(super) fn address(client: &Client, elements: usize) -> Result<AddressType, CubeError> {
    let address = AddressType::from_len(elements);
    if client.properties().supports_address(address) {
        Ok(address)
    } else {
        Err(CubeError::TooLarge {
            what: "number of elements",
            found: elements,
            limit: u32::MAX as usize,
        })
    }
}

/// `tensor` itself, or a contiguous copy of it.
pub(super) fn packed(client: &Client, tensor: &TensorHandle) -> TensorHandle {
    if is_contiguous(tensor.shape(), tensor.strides()) {
        tensor.clone()
    } else {
        into_contiguous(client, tensor.clone().binding(), tensor.dtype)
    }
}

/// A contiguous tensor with whatever is in its memory.
pub(super) fn empty(client: &Client, shape: &[usize], dtype: ElemType) -> TensorHandle {
    let bytes = shape.iter().product::<usize>() * dtype.size();
    TensorHandle::new_contiguous(shape.to_vec(), client.empty(bytes), dtype)
}

/// The most elements of a row of `width` that can be read at once from all of `tensors`, which are
/// contiguous.
pub(super) fn vector_size(client: &Client, width: usize, tensors: &[&TensorHandle]) -> usize {
    let largest = tensors.iter().map(|tensor| tensor.dtype.size()).max();
    let aligned = |size: usize| {
        tensors.iter().all(|tensor| {
            let bytes = (size * tensor.dtype.size()) as u64;
            tensor
                .handle
                .offset_start
                .unwrap_or(0)
                .is_multiple_of(bytes)
        })
    };
    client
        .io_optimized_vector_sizes(largest.unwrap_or(4))
        .filter(|&size| size <= MAX_VECTOR && width.is_multiple_of(size) && aligned(size))
        .max()
        .unwrap_or(1)
}

/// The whole buffer of a contiguous tensor.
pub(super) fn buffer(tensor: &TensorHandle) -> BufferArg {
    tensor.clone().binding().into_buffer_arg()
}

/// Cubes of one unit per work item.
pub(super) fn elementwise(client: &Client, units: usize) -> (CubeCount, CubeDim) {
    let dim = CubeDim::new(client, units);
    (calculate_cube_count_elemwise(client, units, dim), dim)
}

/// As many cubes as asked for, and some idle ones where a grid of that size does not exist.
pub(super) fn cubes(client: &Client, count: usize) -> CubeCount {
    calculate_cube_count_elemwise(client, count, CubeDim::new_single())
}

/// Units of a cube that works on `items` together: a power of two, so that a tree can reduce them.
pub(super) fn units_for(client: &Client, items: usize, most: usize) -> u32 {
    let limit = (client.properties().hardware.max_units_per_cube as usize).min(most);
    let limit = 1 << limit.max(1).ilog2();
    let smallest = (client.properties().hardware.plane_size_max as usize).next_power_of_two();
    items.next_power_of_two().clamp(smallest.min(limit), limit) as u32
}
