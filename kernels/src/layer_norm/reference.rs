//! Layer norm as its definition says, in `f64`.

use super::LayerNorm;

/// `y`, mean and `rstd`.
#[must_use]
pub fn forward(
    shape: LayerNorm,
    x: &[f64],
    gamma: &[f64],
    beta: &[f64],
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let width = shape.width() as f64;
    let (mut y, mut means, mut rstds) = (Vec::new(), Vec::new(), Vec::new());
    for row in x.chunks(shape.width()) {
        let mean = row.iter().sum::<f64>() / width;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width;
        let rstd = 1.0 / (variance + f64::from(shape.epsilon())).sqrt();
        y.extend(
            row.iter()
                .zip(gamma)
                .zip(beta)
                .map(|((x, g), b)| (x - mean) * rstd * g + b),
        );
        means.push(mean);
        rstds.push(rstd);
    }
    (y, means, rstds)
}

/// `dx`, `dgamma` and `dbeta`, by the chain rule over mean and variance one after the other.
#[must_use]
pub fn backward(
    shape: LayerNorm,
    x: &[f64],
    gamma: &[f64],
    dy: &[f64],
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let n = shape.width() as f64;
    let (mut dx, mut dgamma, mut dbeta) = (
        Vec::new(),
        vec![0.0; shape.width()],
        vec![0.0; shape.width()],
    );
    for (row, dy) in x.chunks(shape.width()).zip(dy.chunks(shape.width())) {
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let rstd = 1.0 / (variance + f64::from(shape.epsilon())).sqrt();
        let dnorm: Vec<f64> = dy.iter().zip(gamma).map(|(d, g)| d * g).collect();
        let dvariance: f64 = row
            .iter()
            .zip(&dnorm)
            .map(|(x, d)| d * (x - mean) * -0.5 * rstd.powi(3))
            .sum();
        let dmean: f64 = dnorm.iter().map(|d| -d * rstd).sum();
        for (j, x) in row.iter().enumerate() {
            dx.push(dnorm[j] * rstd + dvariance * 2.0 * (x - mean) / n + dmean / n);
            dgamma[j] += dy[j] * (x - mean) * rstd;
            dbeta[j] += dy[j];
        }
    }
    (dx, dgamma, dbeta)
}
