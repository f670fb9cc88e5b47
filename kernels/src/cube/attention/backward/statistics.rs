//! What both backward kernels need of every query.

use cubecl::{ir::ElemType, prelude::*};

use super::super::super::reduce::lanes_sum;
use super::super::operands::Layout;

/// Log-sum-exp and `delta` of one query a unit: `[queries, 2]`.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(in super::super) fn query_statistics<E: Float, N: Size>(
    output: &[Vector<E, N>],
    gradient: &[Vector<E, N>],
    log_sums: &[f32],
    statistics: &mut [f32],
    output_layout: Layout,
    gradient_layout: Layout,
    seq: usize,
    heads: usize,
    queries: usize,
    row_vectors: usize,
    #[define(E)] _dtype: ElemType,
) {
    let query = ABSOLUTE_POS;
    if query < queries {
        let head = query / seq;
        let position = query % seq;
        let a = output_layout.start(head, heads) + position * output_layout.position;
        let b = gradient_layout.start(head, heads) + position * gradient_layout.position;
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for column in 0..row_vectors {
            let left = Vector::<f32, N>::cast_from(output[a + column]);
            let right = Vector::<f32, N>::cast_from(gradient[b + column]);
            sum += left * right;
        }
        statistics[2 * query] = log_sums[query];
        statistics[2 * query + 1] = lanes_sum::<N>(sum);
    }
}
