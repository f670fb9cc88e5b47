//! Products with a weight, whose arithmetic is what they cost.

use lynx_benches::twins::{ROWS, WIDTH, product};
use lynx_burn::kernels::linear::{Linear, Stored};
use serde::Serialize;

use crate::compare::{Row, compare};

#[derive(Serialize)]
pub(crate) struct Product {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// Operations of ours a second, over the median time.
    pub(crate) forward_gflop_per_s: f64,
    pub(crate) backward_gflop_per_s: f64,
}

/// Inputs and outputs of a GPT's weights, and how they lie: projection, qkv, the MLP, the head.
const WEIGHTS: [(usize, usize, Stored); 5] = [
    (WIDTH, WIDTH, Stored::ByInput),
    (WIDTH, 3 * WIDTH, Stored::ByInput),
    (WIDTH, 4 * WIDTH, Stored::ByInput),
    (4 * WIDTH, WIDTH, Stored::ByInput),
    (WIDTH, WIDTH, Stored::ByOutput),
];

pub(crate) fn products() -> Vec<Product> {
    WEIGHTS
        .into_iter()
        .map(|(inputs, outputs, stored)| {
            let shape = Linear::new(ROWS, inputs, outputs).expect("valid");
            let row = compare(product(inputs, outputs, stored), 0.0);
            let rate = |flops: u64, ms: [f64; 3]| flops as f64 / ms[0] / 1e6;
            Product {
                forward_gflop_per_s: rate(shape.forward_cost().flops, row.ours.forward_ms),
                backward_gflop_per_s: rate(shape.backward_cost().flops, row.ours.backward_ms),
                row,
            }
        })
        .collect()
}
