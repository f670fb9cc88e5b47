//! The kernels: one vector a unit, or one column of vectors where the bias wants sums.

use cubecl::{ir::ElemType, prelude::*};

use super::{
    GeluKind,
    function::{gelu, gelu_slope},
};

/// `gelu(input + bias)`.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn forward<E: Float, N: Size>(
    input: &[Vector<E, N>],
    bias: &[Vector<E, N>],
    output: &mut [Vector<E, N>],
    vectors: usize,
    row_vectors: usize,
    #[comptime] kind: GeluKind,
    #[comptime] has_bias: bool,
    #[define(E)] _dtype: ElemType,
) {
    let position = ABSOLUTE_POS;
    if position < vectors {
        let mut value = Vector::<f32, N>::cast_from(input[position]);
        if has_bias {
            value += Vector::<f32, N>::cast_from(bias[position % row_vectors]);
        }
        let mut result = Vector::<f32, N>::new(0.0f32);
        #[unroll]
        for lane in 0..N::value() {
            result.insert(lane, gelu(value.extract(lane), kind));
        }
        output[position] = Vector::cast_from(result);
    }
}

/// `gradient * gelu'(input + bias)`, and its sums over a block of rows in `partial`
/// `[blocks, width]`. Cubes lie side by side along a row (`x`), and below each other (`y`).
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn backward<E: Float, A: Float, N: Size>(
    gradient: &[Vector<E, N>],
    input: &[Vector<E, N>],
    bias: &[Vector<E, N>],
    input_gradient: &mut [Vector<E, N>],
    partial: &mut [Vector<A, N>],
    rows: usize,
    rows_per_block: usize,
    row_vectors: usize,
    #[comptime] kind: GeluKind,
    #[comptime] has_bias: bool,
    #[define(E)] _dtype: ElemType,
    #[define(A)] _accumulator: ElemType,
) {
    let column = ABSOLUTE_POS_X as usize;
    if column < row_vectors {
        let block = CUBE_POS_Y as usize;
        let first = block * rows_per_block;
        let last = min(first + rows_per_block, rows);
        let mut shift = Vector::<f32, N>::new(0.0f32);
        if has_bias {
            shift = Vector::cast_from(bias[column]);
        }
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for row in first..last {
            let position = row * row_vectors + column;
            let incoming = Vector::<f32, N>::cast_from(gradient[position]);
            let value = Vector::<f32, N>::cast_from(input[position]) + shift;
            let mut result = Vector::<f32, N>::new(0.0f32);
            #[unroll]
            for lane in 0..N::value() {
                let slope = gelu_slope(value.extract(lane), kind);
                result.insert(lane, incoming.extract(lane) * slope);
            }
            input_gradient[position] = Vector::cast_from(result);
            sum += result;
        }
        if has_bias {
            partial[block * row_vectors + column] = Vector::cast_from(sum);
        }
    }
}
