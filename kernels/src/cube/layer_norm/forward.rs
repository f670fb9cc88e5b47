//! Forward: a cube normalises a row, which stays in registers. Recomputation: a unit makes a vector.

use cubecl::{ir::ElemType, prelude::*};

use super::super::reduce::{cube_sum, lanes_sum};

/// `(value - mean) * rstd`: what gamma scales.
#[cube]
pub(super) fn normalised<N: Size>(value: Vector<f32, N>, mean: f32, rstd: f32) -> Vector<f32, N> {
    (value - Vector::new(mean)) * Vector::new(rstd)
}

/// The output of one vector. The fused operation is spelled out, so that no compiler may choose
/// differently for forward and recomputation.
#[cube]
fn affine<N: Size>(
    value: Vector<f32, N>,
    mean: f32,
    rstd: f32,
    gamma: Vector<f32, N>,
    beta: Vector<f32, N>,
) -> Vector<f32, N> {
    fma(normalised::<N>(value, mean, rstd), gamma, beta)
}

/// Output and statistics of one row a cube.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn forward<E: Float, N: Size>(
    input: &[Vector<E, N>],
    gamma: &[Vector<E, N>],
    beta: &[Vector<E, N>],
    output: &mut [Vector<E, N>],
    means: &mut [f32],
    rstds: &mut [f32],
    rows: usize,
    row_vectors: usize,
    width: f32,
    epsilon: f32,
    #[comptime] per_unit: usize,
    #[comptime] units: u32,
    #[comptime] has_beta: bool,
    #[define(E)] _dtype: ElemType,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let start = row * row_vectors;
    let mut shared = Shared::<[f32]>::new_slice(units as usize);
    let mut values = Array::<Vector<f32, N>>::new(per_unit);

    let mut sum = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for item in 0..per_unit {
        let column = unit + item * units as usize;
        let mut value = Vector::<f32, N>::new(0.0f32);
        if column < row_vectors {
            value = Vector::cast_from(input[start + column]);
        }
        values[item] = value;
        sum += value;
    }
    let mean = cube_sum(lanes_sum::<N>(sum), &mut shared, units) / width;

    // Deviations, not squares minus the square: those cancel where the mean is large.
    let mut squares = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for item in 0..per_unit {
        let column = unit + item * units as usize;
        if column < row_vectors {
            let deviation = values[item] - Vector::new(mean);
            squares += deviation * deviation;
        }
    }
    let variance = cube_sum(lanes_sum::<N>(squares), &mut shared, units) / width;
    let rstd = 1.0f32 / (variance + epsilon).sqrt();

    if unit == 0 {
        means[row] = mean;
        rstds[row] = rstd;
    }
    #[unroll]
    for item in 0..per_unit {
        let column = unit + item * units as usize;
        if column < row_vectors {
            let scale = Vector::<f32, N>::cast_from(gamma[column]);
            let mut shift = Vector::<f32, N>::new(0.0f32);
            if has_beta {
                shift = Vector::cast_from(beta[column]);
            }
            let result = affine::<N>(values[item], mean, rstd, scale, shift);
            output[start + column] = Vector::cast_from(result);
        }
    }
}

/// Output of one vector a unit, from the statistics of its row.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn recompute<E: Float, N: Size>(
    input: &[Vector<E, N>],
    gamma: &[Vector<E, N>],
    beta: &[Vector<E, N>],
    means: &[f32],
    rstds: &[f32],
    output: &mut [Vector<E, N>],
    vectors: usize,
    row_vectors: usize,
    #[comptime] has_beta: bool,
    #[define(E)] _dtype: ElemType,
) {
    let position = ABSOLUTE_POS;
    if position < vectors {
        let row = position / row_vectors;
        let column = position % row_vectors;
        let value = Vector::<f32, N>::cast_from(input[position]);
        let scale = Vector::<f32, N>::cast_from(gamma[column]);
        let mut shift = Vector::<f32, N>::new(0.0f32);
        if has_beta {
            shift = Vector::cast_from(beta[column]);
        }
        let result = affine::<N>(value, means[row], rstds[row], scale, shift);
        output[position] = Vector::cast_from(result);
    }
}
