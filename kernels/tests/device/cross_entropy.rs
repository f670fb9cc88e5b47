//! Cross-entropy.

use lynx_kernels::cube::cross_entropy::{
    CrossEntropyProblem, cross_entropy, cross_entropy_backward, cross_entropy_backward_in_place,
};
use proptest::prelude::*;

use crate::harness::{
    Data, F32, I32, bytes, client, dot, download, dtypes, finite_differences, upload,
};
use crate::tolerance::{assert_close, largest};

fn log_sum_exp(row: &[f64]) -> f64 {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + row.iter().map(|x| (x - top).exp()).sum::<f64>().ln()
}

/// Losses and log-sum-exps; a target outside of the row takes no part.
fn forward(logits: &[f64], targets: &[i64], width: usize) -> (Vec<f64>, Vec<f64>) {
    logits
        .chunks(width)
        .zip(targets)
        .map(|(row, &target)| {
            let sum = log_sum_exp(row);
            let logit = usize::try_from(target)
                .ok()
                .and_then(|target| row.get(target));
            (logit.map_or(0.0, |logit| sum - logit), sum)
        })
        .unzip()
}

fn backward(logits: &[f64], targets: &[i64], width: usize, g: &[f64]) -> Vec<f64> {
    let mut all = Vec::new();
    for (row, (logits, &target)) in logits.chunks(width).zip(targets).enumerate() {
        let sum = log_sum_exp(logits);
        let counts = (0..width as i64).contains(&target);
        for (column, logit) in logits.iter().enumerate() {
            let hit = f64::from(u8::from(column as i64 == target));
            let gradient = ((logit - sum).exp() - hit) * g[row];
            all.push(if counts { gradient } else { 0.0 });
        }
    }
    all
}

#[test]
fn the_references_gradient_is_finite_differences() {
    let mut data = Data(3);
    let logits = data.floats(F32, 12, 0.0, 2.0);
    let targets = [2, -1, 0];
    let g = [0.5, 2.0, -1.0];
    let numeric = finite_differences(&logits, |x| dot(&forward(x, &targets, 4).0, &g));
    for (a, n) in backward(&logits, &targets, 4, &g).iter().zip(&numeric) {
        assert!((a - n).abs() < 1e-8, "{a} against {n}");
    }
}

#[test]
fn a_class_that_is_ruled_out_gets_no_probability_and_no_gradient() {
    let Some(client) = client() else { return };
    let never = f64::NEG_INFINITY;
    let x = [never, 0.0, never, 0.0, 1.0, never, never, never];
    let logits = upload(&client, F32, &[2, 4], &x);
    let targets = upload(&client, I32, &[2], &[1.0, 0.0]);
    let made = cross_entropy(&client, &logits, &targets).expect("valid");
    let two = f64::from(2f32.ln());
    assert_close(
        "loss",
        F32,
        8.0,
        1.0,
        &download(&client, &made.loss),
        &[two, 0.0],
    );
    let ones = upload(&client, F32, &[2], &[1.0; 2]);
    let found = cross_entropy_backward(&client, &logits, &targets, &made.log_sum_exp, &ones)
        .expect("valid");
    let expected = [0.0, -0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0];
    assert_close(
        "gradient",
        F32,
        8.0,
        1.0,
        &download(&client, &found),
        &expected,
    );
}

#[test]
fn as_many_rows_fit_into_a_chunk_as_its_bytes_hold() {
    let problem = CrossEntropyProblem {
        rows: 100,
        vocabulary: 1000,
        element: 4,
    };
    assert_eq!(problem.rows_within(12_000), 3);
    assert_eq!(problem.rows_within(0), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn forward_and_backward_are_the_references(
        rows in 1usize..40,
        width in prop_oneof![1usize..70, Just(1001), Just(4096)],
        spread in prop_oneof![Just(1.0), Just(50.0), Just(1e4)],
        seed: u64,
    ) {
        let Some(client) = client() else { return Ok(()) };
        for dtype in dtypes(&client) {
            let mut data = Data(seed);
            let x = data.floats(dtype, rows * width, 0.0, spread);
            // Some of them are padding, and some beyond the vocabulary.
            let targets: Vec<i64> = (0..rows)
                .map(|_| (data.word() % (width as u64 + 3)) as i64 - 1)
                .collect();
            let g = data.floats(F32, rows, 0.0, 1.0);
            let logits = upload(&client, dtype, &[rows, width], &x);
            let numbers: Vec<f64> = targets.iter().map(|&t| t as f64).collect();
            let classes = upload(&client, I32, &[rows], &numbers);
            let gradient = upload(&client, F32, &[rows], &g);

            let made = cross_entropy(&client, &logits, &classes).expect("valid");
            let (losses, sums) = forward(&x, &targets, width);
            let scale = 1.0 + largest(&x);
            assert_close("loss", F32, 16.0, scale, &download(&client, &made.loss), &losses);
            let found = download(&client, &made.log_sum_exp);
            assert_close("log-sum-exp", F32, 16.0, scale, &found, &sums);

            let sums = &made.log_sum_exp;
            let found = cross_entropy_backward(&client, &logits, &classes, sums, &gradient)
                .expect("valid");
            let expected = backward(&x, &targets, width, &g);
            let scale = largest(&g) * scale;
            let numbers = download(&client, &found);
            assert_close("gradient", dtype, 16.0, scale, &numbers, &expected);

            let apart = bytes(&client, &found);
            let before = logits.handle.clone();
            let found = cross_entropy_backward_in_place(&client, logits, &classes, sums, &gradient)
                .expect("valid");
            prop_assert_eq!(bytes(&client, &found), apart.clone());
            let there = client.read_one(before).expect("the device has run the kernel");
            prop_assert_eq!(there.to_vec(), apart);
        }
    }
}
