//! Forward: a cube reads a row once. Backward: a unit makes a vector of gradients.

use cubecl::{ir::ElemType, prelude::*};

use super::super::reduce::{cube_max, cube_sum};

/// The lowest finite number: below it there is only an infinity, whose difference with itself
/// would not be a number.
const LOWEST: f32 = f32::MIN;

/// Loss and log-sum-exp of one row a cube.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn forward<E: Float, I: Int, N: Size>(
    logits: &[Vector<E, N>],
    targets: &[I],
    losses: &mut [f32],
    log_sums: &mut [f32],
    rows: usize,
    row_vectors: usize,
    #[comptime] units: u32,
    #[define(E)] _dtype: ElemType,
    #[define(I)] _index: ElemType,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let start = row * row_vectors;
    let mut shared = Shared::<[f32]>::new_slice(units as usize);

    // The largest so far, and the sum of exponentials below it.
    let mut largest = LOWEST.runtime();
    let mut sum = 0.0f32.runtime();
    let mut column = unit;
    while column < row_vectors {
        let values = Vector::<f32, N>::cast_from(logits[start + column]);
        let mut here = largest;
        #[unroll]
        for lane in 0..N::value() {
            here = max(here, values.extract(lane));
        }
        sum *= (largest - here).exp();
        #[unroll]
        for lane in 0..N::value() {
            sum += (values.extract(lane) - here).exp();
        }
        largest = here;
        column += units as usize;
    }
    let overall = cube_max(largest, &mut shared, units);
    let total = cube_sum(sum * (largest - overall).exp(), &mut shared, units);

    if unit == 0 {
        let log_sum = overall + total.ln();
        log_sums[row] = log_sum;
        let target = targets[row];
        let wanted = usize::cast_from(target);
        let mut loss = 0.0f32.runtime();
        if target >= I::from_int(0) && wanted < row_vectors * N::value() {
            let values = Vector::<f32, N>::cast_from(logits[start + wanted / N::value()]);
            let mut logit = values.extract(0usize);
            #[unroll]
            for lane in 1..N::value() {
                logit = select(wanted % N::value() == lane, values.extract(lane), logit);
            }
            loss = log_sum - logit;
        }
        losses[row] = loss;
    }
}

/// `(probability - [is the target]) * gradient of the row's loss`. `output` may be the logits.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn backward<E: Float, I: Int, N: Size>(
    logits: &[Vector<E, N>],
    targets: &[I],
    log_sums: &[f32],
    loss_gradients: &[f32],
    output: &mut [Vector<E, N>],
    vectors: usize,
    row_vectors: usize,
    #[define(E)] _dtype: ElemType,
    #[define(I)] _index: ElemType,
) {
    let position = ABSOLUTE_POS;
    if position < vectors {
        let row = position / row_vectors;
        let column = (position % row_vectors) * N::value();
        let target = targets[row];
        let wanted = usize::cast_from(target);
        let counts = target >= I::from_int(0) && wanted < row_vectors * N::value();
        let log_sum = log_sums[row];
        let gradient = loss_gradients[row];
        let values = Vector::<f32, N>::cast_from(logits[position]);
        let mut result = Vector::<f32, N>::new(0.0f32);
        if counts {
            #[unroll]
            for lane in 0..N::value() {
                let probability = (values.extract(lane) - log_sum).exp();
                let hit = select(column + lane == wanted, 1.0f32, 0.0f32);
                result.insert(lane, (probability - hit) * gradient);
            }
        }
        output[position] = Vector::cast_from(result);
    }
}
