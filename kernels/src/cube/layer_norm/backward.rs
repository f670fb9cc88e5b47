//! Backward: a cube takes a block of rows, one after the other, and keeps the sums of its columns.

use cubecl::{ir::ElemType, prelude::*};

use super::super::reduce::{cube_sum, lanes_sum};
use super::forward::normalised;

/// Gradient of the input, and the block's sums for gamma and beta: `partial` is
/// `[2, blocks, width]`, gamma's first.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn backward<E: Float, A: Float, N: Size>(
    gradient: &[Vector<E, N>],
    input: &[Vector<E, N>],
    gamma: &[Vector<E, N>],
    means: &[f32],
    rstds: &[f32],
    input_gradient: &mut [Vector<E, N>],
    partial: &mut [Vector<A, N>],
    rows: usize,
    rows_per_block: usize,
    blocks: usize,
    row_vectors: usize,
    width: f32,
    #[comptime] per_unit: usize,
    #[comptime] units: u32,
    #[define(E)] _dtype: ElemType,
    #[define(A)] _accumulator: ElemType,
) {
    let block = CUBE_POS;
    if block >= blocks {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let mut shared = Shared::<[f32]>::new_slice(units as usize);
    let mut gamma_sums = Array::<Vector<f32, N>>::new(per_unit);
    let mut beta_sums = Array::<Vector<f32, N>>::new(per_unit);
    let mut scaled = Array::<Vector<f32, N>>::new(per_unit);
    let mut normal = Array::<Vector<f32, N>>::new(per_unit);
    #[unroll]
    for item in 0..per_unit {
        gamma_sums[item] = Vector::new(0.0f32);
        beta_sums[item] = Vector::new(0.0f32);
    }

    let first = block * rows_per_block;
    let last = min(first + rows_per_block, rows);
    for row in first..last {
        let start = row * row_vectors;
        let mean = means[row];
        let rstd = rstds[row];
        let mut plain = Vector::<f32, N>::new(0.0f32);
        let mut projected = Vector::<f32, N>::new(0.0f32);
        #[unroll]
        for item in 0..per_unit {
            let column = unit + item * units as usize;
            scaled[item] = Vector::new(0.0f32);
            normal[item] = Vector::new(0.0f32);
            if column < row_vectors {
                let incoming = Vector::<f32, N>::cast_from(gradient[start + column]);
                let value = Vector::<f32, N>::cast_from(input[start + column]);
                let unscaled = normalised::<N>(value, mean, rstd);
                let through = incoming * Vector::<f32, N>::cast_from(gamma[column]);
                gamma_sums[item] += incoming * unscaled;
                beta_sums[item] += incoming;
                plain += through;
                projected += through * unscaled;
                scaled[item] = through;
                normal[item] = unscaled;
            }
        }
        let plain = cube_sum(lanes_sum::<N>(plain), &mut shared, units) / width;
        let projected = cube_sum(lanes_sum::<N>(projected), &mut shared, units) / width;
        #[unroll]
        for item in 0..per_unit {
            let column = unit + item * units as usize;
            if column < row_vectors {
                let along = normal[item] * Vector::new(projected) + Vector::new(plain);
                let result = (scaled[item] - along) * Vector::new(rstd);
                input_gradient[start + column] = Vector::cast_from(result);
            }
        }
    }

    #[unroll]
    for item in 0..per_unit {
        let column = unit + item * units as usize;
        if column < row_vectors {
            partial[block * row_vectors + column] = Vector::cast_from(gamma_sums[item]);
            partial[(blocks + block) * row_vectors + column] = Vector::cast_from(beta_sums[item]);
        }
    }
}
