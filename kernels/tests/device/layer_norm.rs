//! Layer norm.

use lynx_kernels::cube::layer_norm::{layer_norm, layer_norm_backward, layer_norm_recompute};
use proptest::prelude::*;

use crate::harness::{Data, F32, bytes, client, dot, download, dtypes, finite_differences, upload};
use crate::tolerance::{assert_close, largest};

const EPSILON: f64 = 1e-5;

struct Reference {
    output: Vec<f64>,
    mean: Vec<f64>,
    rstd: Vec<f64>,
}

fn forward(x: &[f64], gamma: &[f64], beta: &[f64]) -> Reference {
    let width = gamma.len();
    let mut made = Reference {
        output: Vec::new(),
        mean: Vec::new(),
        rstd: Vec::new(),
    };
    for row in x.chunks(width) {
        let mean = row.iter().sum::<f64>() / width as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
        let rstd = 1.0 / (variance + f64::from(EPSILON as f32)).sqrt();
        made.mean.push(mean);
        made.rstd.push(rstd);
        for (i, v) in row.iter().enumerate() {
            made.output.push((v - mean) * rstd * gamma[i] + beta[i]);
        }
    }
    made
}

/// Gradients of input, gamma and beta.
fn backward(g: &[f64], x: &[f64], gamma: &[f64]) -> [Vec<f64>; 3] {
    let width = gamma.len();
    let zeros = vec![0.0; width];
    let Reference { mean, rstd, .. } = forward(x, gamma, &zeros);
    let mut of_gamma = zeros.clone();
    let mut of_beta = zeros;
    let mut of_input = Vec::new();
    for (row, (g, x)) in g.chunks(width).zip(x.chunks(width)).enumerate() {
        let normal: Vec<f64> = x.iter().map(|v| (v - mean[row]) * rstd[row]).collect();
        let through: Vec<f64> = g.iter().zip(gamma).map(|(g, s)| g * s).collect();
        let plain = through.iter().sum::<f64>() / width as f64;
        let along = dot(&through, &normal) / width as f64;
        for i in 0..width {
            of_gamma[i] += g[i] * normal[i];
            of_beta[i] += g[i];
            of_input.push(rstd[row] * (through[i] - plain - normal[i] * along));
        }
    }
    [of_input, of_gamma, of_beta]
}

#[test]
fn the_references_gradients_are_finite_differences() {
    let mut data = Data(7);
    let (rows, width) = (3, 5);
    let x = data.floats(F32, rows * width, 0.3, 1.0);
    let gamma = data.floats(F32, width, 1.0, 0.3);
    let beta = data.floats(F32, width, 0.0, 0.3);
    let g = data.floats(F32, rows * width, 0.0, 1.0);
    let loss = |x: &[f64], s: &[f64], b: &[f64]| dot(&forward(x, s, b).output, &g);
    let [of_input, of_gamma, of_beta] = backward(&g, &x, &gamma);
    let pairs = [
        (of_input, finite_differences(&x, |x| loss(x, &gamma, &beta))),
        (of_gamma, finite_differences(&gamma, |s| loss(&x, s, &beta))),
        (of_beta, finite_differences(&beta, |b| loss(&x, &gamma, b))),
    ];
    for (analytic, numeric) in pairs {
        for (a, n) in analytic.iter().zip(&numeric) {
            assert!((a - n).abs() < 1e-7, "{a} against {n}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn forward_recompute_and_backward_are_the_references(
        rows in 1usize..40,
        width in prop_oneof![1usize..70, Just(256), Just(1023), Just(1600)],
        offset in prop_oneof![Just(0.0), Just(3.0), Just(200.0)],
        shifted: bool,
        seed: u64,
    ) {
        let Some(client) = client() else { return Ok(()) };
        for dtype in dtypes(&client) {
            let mut data = Data(seed);
            let x = data.floats(dtype, rows * width, offset, 2.0);
            let gamma = data.floats(dtype, width, 1.0, 0.5);
            let beta = if shifted { data.floats(dtype, width, 0.0, 0.5) } else { vec![0.0; width] };
            let g = data.floats(dtype, rows * width, 0.0, 1.0);
            let [input, gradient] = [&x, &g].map(|v| upload(&client, dtype, &[rows, width], v));
            let [scale, shift] = [&gamma, &beta].map(|v| upload(&client, dtype, &[width], v));
            let shift = shifted.then_some(&shift);

            let made = layer_norm(&client, &input, &scale, shift, EPSILON as f32).expect("valid");
            let expected = forward(&x, &gamma, &beta);
            // A mean is off in proportion to the numbers that it is the mean of, and everything
            // divided by a small deviation with it.
            let amplified = (1.0 + largest(&x)) * largest(&expected.rstd).max(1.0);
            let means = download(&client, &made.mean);
            assert_close("mean", F32, 4.0, largest(&x), &means, &expected.mean);
            let rstds = download(&client, &made.rstd);
            let strongest = largest(&expected.rstd);
            assert_close("rstd", F32, 4.0, strongest * amplified, &rstds, &expected.rstd);
            let outputs = download(&client, &made.output);
            let size = amplified * largest(&gamma);
            assert_close("output", dtype, 8.0, size, &outputs, &expected.output);

            let again = layer_norm_recompute(&client, &input, &scale, shift, &made.mean, &made.rstd)
                .expect("valid");
            prop_assert_eq!(bytes(&client, &again), bytes(&client, &made.output));

            let found =
                layer_norm_backward(&client, &gradient, &input, &scale, &made.mean, &made.rstd)
                    .expect("valid");
            let [of_input, of_gamma, of_beta] = backward(&g, &x, &gamma);
            let size = size * strongest * largest(&g);
            let inputs = download(&client, &found.input);
            assert_close("input's gradient", dtype, 8.0, size, &inputs, &of_input);
            let size = amplified * largest(&g) * rows as f64;
            let gammas = download(&client, &found.gamma);
            assert_close("gamma's gradient", dtype, 4.0, size, &gammas, &of_gamma);
            let betas = download(&client, &found.beta);
            assert_close("beta's gradient", dtype, 4.0, size, &betas, &of_beta);
        }
    }
}
