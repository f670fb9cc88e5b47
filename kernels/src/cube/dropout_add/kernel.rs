//! The kernels. A unit works on blocks of four elements, which share a Philox evaluation.

use cubecl::{ir::ElemType, prelude::*};

use super::super::philox::{Mask, Place};

/// The lanes of `value`, vector number `position`, that the mask lets through, scaled; zero
/// elsewhere, whatever was there. `words` are of the block that it is part number `part` of.
#[cube]
fn masked<N: Size>(
    value: Vector<f32, N>,
    position: usize,
    words: Vector<u32, Const<4>>,
    mask: &Mask,
    #[comptime] part: usize,
    #[comptime] place: Place,
) -> Vector<f32, N> {
    let size = N::value();
    let mut result = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for lane in 0..size {
        let word = if comptime!(place == Place::Slice) {
            mask.word(position * size + lane, place)
        } else {
            words.extract(comptime!(part * size + lane))
        };
        let scaled = value.extract(lane) * mask.scale;
        result.insert(lane, select(mask.keeps(word), scaled, 0.0f32));
    }
    result
}

/// `residual + mask * (input + bias)`, one block of four elements a unit.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn forward<E: Float, N: Size>(
    input: &[Vector<E, N>],
    residual: &[Vector<E, N>],
    bias: &[Vector<E, N>],
    output: &mut [Vector<E, N>],
    mask: Mask,
    vectors: usize,
    row_vectors: usize,
    #[comptime] has_residual: bool,
    #[comptime] has_bias: bool,
    #[comptime] place: Place,
    #[define(E)] _dtype: ElemType,
) {
    let size = N::value();
    let parts = comptime!(4 / size);
    let first = ABSOLUTE_POS * parts;
    if first < vectors {
        let words = mask.words(ABSOLUTE_POS, place);
        #[unroll]
        for part in 0..parts {
            let position = first + part;
            if position < vectors {
                let mut value = Vector::<f32, N>::cast_from(input[position]);
                if has_bias {
                    value += Vector::<f32, N>::cast_from(bias[position % row_vectors]);
                }
                let mut sum = masked::<N>(value, position, words, &mask, part, place);
                if has_residual {
                    sum += Vector::<f32, N>::cast_from(residual[position]);
                }
                output[position] = Vector::cast_from(sum);
            }
        }
    }
}

/// Gradient of the input, `mask * gradient`, one block of four elements a unit.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn backward<E: Float, N: Size>(
    gradient: &[Vector<E, N>],
    input_gradient: &mut [Vector<E, N>],
    mask: Mask,
    vectors: usize,
    #[comptime] place: Place,
    #[define(E)] _dtype: ElemType,
) {
    let size = N::value();
    let parts = comptime!(4 / size);
    let first = ABSOLUTE_POS * parts;
    if first < vectors {
        let words = mask.words(ABSOLUTE_POS, place);
        #[unroll]
        for part in 0..parts {
            let position = first + part;
            if position < vectors {
                let value = Vector::<f32, N>::cast_from(gradient[position]);
                let result = masked::<N>(value, position, words, &mask, part, place);
                input_gradient[position] = Vector::cast_from(result);
            }
        }
    }
}

/// As [`backward`], and the sums over a block of rows, for the bias. A unit walks down one column
/// of vectors; cubes lie side by side along a row (`x`), and below each other (`y`).
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn backward_with_bias<E: Float, A: Float, N: Size>(
    gradient: &[Vector<E, N>],
    input_gradient: &mut [Vector<E, N>],
    partial: &mut [Vector<A, N>],
    mask: Mask,
    rows: usize,
    rows_per_block: usize,
    row_vectors: usize,
    #[comptime] place: Place,
    #[define(E)] _dtype: ElemType,
    #[define(A)] _accumulator: ElemType,
) {
    let size = N::value();
    let column = ABSOLUTE_POS_X as usize;
    if column < row_vectors {
        let block = CUBE_POS_Y as usize;
        let start = block * rows_per_block;
        let end = min(start + rows_per_block, rows);
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for row in start..end {
            let position = row * row_vectors + column;
            let value = Vector::<f32, N>::cast_from(gradient[position]);
            let mut result = Vector::<f32, N>::new(0.0f32);
            if comptime!(size == 4) {
                let words = mask.words(position, place);
                result = masked::<N>(value, position, words, &mask, 0usize, place);
            } else {
                #[unroll]
                for lane in 0..N::value() {
                    let word = mask.word(position * N::value() + lane, place);
                    let scaled = value.extract(lane) * mask.scale;
                    result.insert(lane, select(mask.keeps(word), scaled, 0.0f32));
                }
            }
            input_gradient[position] = Vector::cast_from(result);
            sum += result;
        }
        partial[block * row_vectors + column] = Vector::cast_from(sum);
    }
}
