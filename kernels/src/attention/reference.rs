//! Causal attention in `f64`, with the whole matrix and with the mask given.

use super::Attention;

/// `out` and `lse`. An empty `mask` drops nothing.
#[must_use]
pub fn forward(shape: Attention, qkv: &[f64], mask: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut out = vec![0.0; shape.elements()];
    let mut lse = vec![0.0; shape.queries()];
    for_each_query(shape, |b, h, i| {
        let (weights, query_lse) = weights(shape, qkv, b, h, i);
        let query = (b * shape.heads() + h) * shape.seq() + i;
        lse[query] = query_lse;
        for (j, weight) in weights.into_iter().enumerate() {
            let weight = weight * kept(mask, query * shape.seq() + j);
            for c in 0..shape.d_head() {
                out[at(shape, b, i, h, c)] += weight * qkv[part(shape, 2, b, j, h, c)];
            }
        }
    });
    (out, lse)
}

/// `dqkv`.
#[must_use]
pub fn backward(shape: Attention, qkv: &[f64], mask: &[f64], dout: &[f64]) -> Vec<f64> {
    let mut dqkv = vec![0.0; qkv.len()];
    let scale = f64::from(shape.scale());
    for_each_query(shape, |b, h, i| {
        let (weights, _) = weights(shape, qkv, b, h, i);
        let query = (b * shape.heads() + h) * shape.seq() + i;
        let dweights: Vec<f64> = (0..weights.len())
            .map(|j| {
                let dot: f64 = (0..shape.d_head())
                    .map(|c| dout[at(shape, b, i, h, c)] * qkv[part(shape, 2, b, j, h, c)])
                    .sum();
                dot * kept(mask, query * shape.seq() + j)
            })
            .collect();
        let mean: f64 = weights.iter().zip(&dweights).map(|(w, d)| w * d).sum();
        for (j, (weight, dweight)) in weights.iter().zip(&dweights).enumerate() {
            let dscore = weight * (dweight - mean) * scale;
            let dropped = weight * kept(mask, query * shape.seq() + j);
            for c in 0..shape.d_head() {
                dqkv[part(shape, 0, b, i, h, c)] += dscore * qkv[part(shape, 1, b, j, h, c)];
                dqkv[part(shape, 1, b, j, h, c)] += dscore * qkv[part(shape, 0, b, i, h, c)];
                dqkv[part(shape, 2, b, j, h, c)] += dropped * dout[at(shape, b, i, h, c)];
            }
        }
    });
    dqkv
}

/// The weights of the keys that a query sees, and the log-sum-exp of their scores.
fn weights(shape: Attention, qkv: &[f64], b: usize, h: usize, i: usize) -> (Vec<f64>, f64) {
    let scores: Vec<f64> = (0..=i)
        .map(|j| {
            let dot: f64 = (0..shape.d_head())
                .map(|c| qkv[part(shape, 0, b, i, h, c)] * qkv[part(shape, 1, b, j, h, c)])
                .sum();
            dot * f64::from(shape.scale())
        })
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
    let lse = largest + sum.ln();
    (scores.iter().map(|s| (s - lse).exp()).collect(), lse)
}

fn for_each_query(shape: Attention, mut body: impl FnMut(usize, usize, usize)) {
    for b in 0..shape.batch() {
        for h in 0..shape.heads() {
            for i in 0..shape.seq() {
                body(b, h, i);
            }
        }
    }
}

fn kept(mask: &[f64], element: usize) -> f64 {
    mask.get(element).copied().unwrap_or(1.0)
}

fn at(shape: Attention, b: usize, i: usize, h: usize, c: usize) -> usize {
    ((b * shape.seq() + i) * shape.heads() + h) * shape.d_head() + c
}

fn part(shape: Attention, part: usize, b: usize, i: usize, h: usize, c: usize) -> usize {
    (((b * shape.seq() + i) * 3 + part) * shape.heads() + h) * shape.d_head() + c
}
