//! Bias and GELU.

use lynx_kernels::cube::gelu::{GeluKind, bias_gelu, bias_gelu_backward};
use proptest::prelude::*;

use crate::harness::{Data, F32, bytes, client, download, dtypes, finite_differences, upload};
use crate::tolerance::{assert_close, largest};

/// The normal distribution function, by its series near zero and its continued fraction beyond:
/// both independent of the kernel's fit.
fn normal_cdf(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    if x.abs() < 3.0 {
        // x + x^3/3 + x^5/15 + ..
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term.abs() > 1e-18 {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        0.5 + density * sum
    } else {
        let mut fraction = x.abs();
        for k in (1..200).rev() {
            fraction = x.abs() + f64::from(k) / fraction;
        }
        let tail = density / fraction;
        if x < 0.0 { tail } else { 1.0 - tail }
    }
}

fn gelu(x: f64, kind: GeluKind) -> f64 {
    match kind {
        GeluKind::Erf => x * normal_cdf(x),
        GeluKind::Tanh => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            // 1 + tanh(u), without its cancellation.
            x / (1.0 + (-2.0 * u).exp())
        }
    }
}

/// By central differences of [`gelu`], exact to about 1e-10 on numbers of this size.
fn slope(x: f64, kind: GeluKind) -> f64 {
    finite_differences(&[x], |x| gelu(x[0], kind))[0]
}

#[test]
fn the_tails_are_small_numbers_and_not_rounding_errors() {
    let Some(client) = client() else { return };
    let x: Vec<f64> = (0..64).map(|i| -1.0 - f64::from(i) / 8.0).collect();
    let input = upload(&client, F32, &[8, 8], &x);
    for kind in [GeluKind::Erf, GeluKind::Tanh] {
        let output = bias_gelu(&client, &input, None, kind).expect("valid");
        for (&x, found) in x.iter().zip(download(&client, &output)) {
            let expected = gelu(x, kind);
            // The tanh's exponent of up to 58 is made in four roundings, each as many units of the
            // result, and WGSL's exp of it is good to (3 + 2 * 58) of them.
            let bound = 360.0 * 0.5f64.powi(24) * expected.abs() + f64::from(f32::MIN_POSITIVE);
            assert!(
                (found - expected).abs() <= bound,
                "{kind:?} at {x}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn everything_or_nothing_passes_far_from_zero() {
    let Some(client) = client() else { return };
    let x = [1e4, -1e4, 1e30, -1e30, 3e38, -3e38, 0.0, f64::INFINITY];
    let input = upload(&client, F32, &[1, 8], &x);
    let ones = upload(&client, F32, &[1, 8], &[1.0; 8]);
    for kind in [GeluKind::Erf, GeluKind::Tanh] {
        let output = bias_gelu(&client, &input, None, kind).expect("valid");
        let expected: Vec<f64> = x
            .iter()
            .map(|&x: &f64| f64::from(x.max(0.0) as f32))
            .collect();
        assert_eq!(download(&client, &output), expected, "{kind:?}");
        let slopes = bias_gelu_backward(&client, &ones, &input, None, kind).expect("valid");
        let slopes = download(&client, &slopes.input);
        assert_close(
            "slope",
            F32,
            8.0,
            1.0,
            &slopes,
            &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.5, 1.0],
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn forward_and_backward_are_the_references(
        rows in 1usize..60,
        width in 1usize..70,
        spread in prop_oneof![Just(0.01), Just(1.0), Just(6.0)],
        bias: bool,
        seed: u64,
    ) {
        let Some(client) = client() else { return Ok(()) };
        for dtype in dtypes(&client) {
            for kind in [GeluKind::Erf, GeluKind::Tanh] {
                let mut data = Data(seed);
                let n = rows * width;
                let x = data.floats(dtype, n, 0.0, spread);
                let b = data.floats(dtype, width, 0.0, 1.0);
                let g = data.floats(dtype, n, 0.0, 1.0);
                let [input, gradient] =
                    [&x, &g].map(|values| upload(&client, dtype, &[rows, width], values));
                let shift = upload(&client, dtype, &[width], &b);
                let shift = bias.then_some(&shift);
                // In f32, as the kernel adds: the sum is rounded before anything else happens.
                let shifted: Vec<f64> = (0..n)
                    .map(|i| f64::from((x[i] + if bias { b[i % width] } else { 0.0 }) as f32))
                    .collect();

                let run = || bias_gelu(&client, &input, shift, kind).expect("valid");
                let output = run();
                let expected: Vec<f64> = shifted.iter().map(|&x| gelu(x, kind)).collect();
                let found = download(&client, &output);
                assert_close("gelu", dtype, 32.0, largest(&expected), &found, &expected);
                prop_assert_eq!(bytes(&client, &run()), bytes(&client, &output));

                let made = bias_gelu_backward(&client, &gradient, &input, shift, kind)
                    .expect("valid");
                let expected: Vec<f64> =
                    (0..n).map(|i| g[i] * slope(shifted[i], kind)).collect();
                let found = download(&client, &made.input);
                // Large arguments of the tanh lose bits in proportion to their cube.
                let scale = largest(&g) * (1.0 + largest(&shifted));
                assert_close("gradient", dtype, 32.0, scale, &found, &expected);
                prop_assert_eq!(made.bias.is_some(), bias);
                if let Some(of_bias) = made.bias {
                    let sums: Vec<f64> = (0..width)
                        .map(|column| expected[column..].iter().step_by(width).sum())
                        .collect();
                    let found = download(&client, &of_bias);
                    assert_close("bias", dtype, 16.0, scale * rows as f64, &found, &sums);
                }
            }
        }
    }
}
