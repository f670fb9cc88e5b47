//! Dropout and residual in `f64`, with the mask given.

/// `residual + mask * (x + bias)`; empty `bias` or `residual` are none.
#[must_use]
pub fn forward(width: usize, x: &[f64], bias: &[f64], residual: &[f64], mask: &[f64]) -> Vec<f64> {
    (0..x.len())
        .map(|i| {
            let bias = bias.get(i % width).copied().unwrap_or(0.0);
            residual.get(i).copied().unwrap_or(0.0) + mask[i] * (x[i] + bias)
        })
        .collect()
}

/// `dx` and `dbias`.
#[must_use]
pub fn backward(width: usize, dy: &[f64], mask: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let dx: Vec<f64> = dy.iter().zip(mask).map(|(d, m)| d * m).collect();
    let mut dbias = vec![0.0; width];
    for (i, dx) in dx.iter().enumerate() {
        dbias[i % width] += dx;
    }
    (dx, dbias)
}
