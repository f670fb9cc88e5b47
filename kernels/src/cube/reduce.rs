//! Reductions inside a cube, and over the rows of a matrix.
//!
//! Both keep one order of additions, so a sum has the same bits every time.

use cubecl::{ir::ElemType, prelude::*, std::tensor::TensorHandle};

use super::CubeError;
use super::operand::{F32, address, buffer, elementwise, empty, vector_size};

/// Sum over the cube, for every unit. `shared` has one place per unit; `units` is a power of two.
#[cube]
pub(super) fn cube_sum(value: f32, shared: &mut Shared<[f32]>, #[comptime] units: u32) -> f32 {
    let unit = UNIT_POS as usize;
    shared[unit] = value;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2()) {
        let half = comptime!((units >> (level + 1)) as usize);
        if unit < half {
            let other = shared[unit + half];
            shared[unit] += other;
        }
        sync_cube();
    }
    let sum = shared[0];
    // Nobody may write before everybody has read.
    sync_cube();
    sum
}

/// Maximum over the cube, for every unit, as [`cube_sum`].
#[cube]
pub(super) fn cube_max(value: f32, shared: &mut Shared<[f32]>, #[comptime] units: u32) -> f32 {
    let unit = UNIT_POS as usize;
    shared[unit] = value;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2()) {
        let half = comptime!((units >> (level + 1)) as usize);
        if unit < half {
            let other = shared[unit + half];
            shared[unit] = max(shared[unit], other);
        }
        sync_cube();
    }
    let largest = shared[0];
    sync_cube();
    largest
}

/// The sum of a vector's lanes, from first to last.
#[cube]
pub(super) fn lanes_sum<N: Size>(vector: Vector<f32, N>) -> f32 {
    let mut sum = vector.extract(0usize);
    #[unroll]
    for lane in 1..N::value() {
        sum += vector.extract(lane);
    }
    sum
}

/// Blocks of rows whose sums are formed separately, and added in a second pass.
///
/// Enough to occupy a device, and independent of it: the order of additions stays.
pub(super) fn row_blocks(rows: usize) -> usize {
    rows.div_ceil(8).clamp(1, 512)
}

/// Adds the rows of matrix number `index` of `partial`, `[matrices, blocks, width]` of `f32`.
pub(super) fn fold_rows(
    client: &Client,
    partial: &TensorHandle,
    index: usize,
    dtype: ElemType,
) -> Result<TensorHandle, CubeError> {
    let [blocks, width] = [partial.shape()[1], partial.shape()[2]];
    let total = empty(client, &[width], dtype);
    let lanes = vector_size(client, width, &[partial, &total]);
    let (count, dim) = elementwise(client, width / lanes);
    // SAFETY: a unit reads and writes only below `width`, in buffers of the lengths given here.
    unsafe {
        fold_rows_kernel::launch_unchecked(
            client,
            count,
            dim,
            address(client, (index + 1) * blocks * width)?,
            lanes,
            buffer(partial),
            buffer(&total),
            index * blocks,
            blocks,
            width / lanes,
            dtype,
            F32,
        );
    }
    Ok(total)
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn fold_rows_kernel<E: Float, A: Float, N: Size>(
    partial: &[Vector<A, N>],
    total: &mut [Vector<E, N>],
    first: usize,
    blocks: usize,
    width: usize,
    #[define(E)] _dtype: ElemType,
    #[define(A)] _accumulator: ElemType,
) {
    if ABSOLUTE_POS < width {
        let mut sum = Vector::<A, N>::new(A::new(0.0f32));
        for block in first..first + blocks {
            sum += partial[block * width + ABSOLUTE_POS];
        }
        total[ABSOLUTE_POS] = Vector::cast_from(sum);
    }
}
