//! Dropout, residual and bias.

use lynx_kernels::{
    cube::dropout_add::{dropout_add, dropout_add_backward},
    random::{DropoutMask, KeepProbability, RowSlice, StreamKey, fill_dropout_mask},
};
use proptest::prelude::*;

use crate::harness::{Data, F32, bytes, client, download, dtypes, upload};
use crate::tolerance::{assert_close, largest};

fn key(seed: u64) -> StreamKey {
    StreamKey {
        seed,
        step: 5,
        micro_batch: 2,
        segment: 9,
        site: 1,
    }
}

fn mask(seed: u64, keep: KeepProbability, elements: usize) -> Vec<f64> {
    let mut mask = vec![0.0f32; elements];
    fill_dropout_mask(key(seed), keep, &mut mask);
    mask.into_iter().map(f64::from).collect()
}

#[test]
fn the_mask_is_the_cpus_bit_for_bit() {
    let Some(client) = client() else { return };
    for (rows, width) in [(1, 1), (1, 7), (3, 5), (4, 6), (9, 64), (257, 12)] {
        for drop in [0.0, 0.1, 0.5, 0.97] {
            let keep = KeepProbability::from_drop(drop).expect("a probability");
            let ones = upload(&client, F32, &[rows, width], &vec![1.0; rows * width]);
            let forward = dropout_add(&client, &ones, None, None, DropoutMask::new(key(3), keep))
                .expect("valid");
            let plain = dropout_add_backward(&client, &ones, false, DropoutMask::new(key(3), keep))
                .expect("valid");
            let summed = dropout_add_backward(&client, &ones, true, DropoutMask::new(key(3), keep))
                .expect("valid");
            let expected = mask(3, keep, rows * width);
            let place = format!("[{rows}, {width}], drop {drop}");
            assert_eq!(download(&client, &forward), expected, "forward {place}");
            assert_eq!(
                download(&client, &plain.input),
                expected,
                "backward {place}"
            );
            assert_eq!(
                download(&client, &summed.input),
                expected,
                "with bias {place}"
            );
        }
    }
}

/// Oracle: the whole tensor's mask on the CPU, cut by hand. The widths are those of a rank's heads or
/// columns: a row of the whole may be several of the tensor's, and blocks of four may be cut.
#[test]
fn a_slice_has_the_mask_that_it_has_in_the_whole() {
    let Some(client) = client() else { return };
    let keep = KeepProbability::from_drop(0.4).expect("a probability");
    // Rows of the whole, their width, what is held of each, and the width of the tensor's own rows.
    let cases = [
        (5, 64, 16, 32, 32),
        (5, 64, 16, 32, 8),
        (3, 30, 10, 10, 10),
        (3, 30, 20, 10, 5),
        (7, 9, 1, 8, 4),
        (2, 12, 0, 12, 12),
        (40, 4, 3, 1, 1),
    ];
    for (rows, whole, first, length, width) in cases {
        let all = mask(3, keep, rows * whole);
        let expected: Vec<f64> = all
            .chunks(whole)
            .flat_map(|row| row[first..first + length].to_vec())
            .collect();
        let shape = [rows * length / width, width];
        let ones = upload(&client, F32, &shape, &vec![1.0; rows * length]);
        let slice = RowSlice {
            whole,
            first,
            length,
        };
        let drawn = DropoutMask::new(key(3), keep).of(slice);
        let forward = dropout_add(&client, &ones, None, None, drawn).expect("valid");
        assert_eq!(download(&client, &forward), expected, "forward {slice:?}");
        for bias in [false, true] {
            let found = dropout_add_backward(&client, &ones, bias, drawn).expect("valid");
            let place = format!("backward {slice:?}, bias {bias}");
            assert_eq!(download(&client, &found.input), expected, "{place}");
        }
    }
}

#[test]
fn a_slice_that_is_none_is_refused() {
    let Some(client) = client() else { return };
    let keep = KeepProbability::from_drop(0.4).expect("a probability");
    let ones = upload(&client, F32, &[2, 4], &[1.0; 8]);
    for (whole, first, length) in [(8, 0, 0), (8, 5, 4), (8, usize::MAX, 4)] {
        let slice = RowSlice {
            whole,
            first,
            length,
        };
        let drawn = DropoutMask::new(key(3), keep).of(slice);
        let refused = dropout_add(&client, &ones, None, None, drawn).expect_err("no slice");
        let message = refused.to_string();
        assert!(
            message.contains("is not a run of a row's elements"),
            "{message}"
        );
    }
}

#[test]
fn what_is_dropped_does_not_count_even_if_it_is_infinite() {
    let Some(client) = client() else { return };
    let keep = KeepProbability::from_drop(0.5).expect("a probability");
    let input = upload(&client, F32, &[8, 8], &[f64::INFINITY; 64]);
    let output =
        dropout_add(&client, &input, None, None, DropoutMask::new(key(1), keep)).expect("valid");
    let expected: Vec<f64> = mask(1, keep, 64)
        .into_iter()
        .map(|m| if m == 0.0 { 0.0 } else { f64::INFINITY })
        .collect();
    assert_eq!(download(&client, &output), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn forward_and_backward_are_the_references(
        rows in 1usize..70, width in 1usize..50, seed: u64, residual: bool, bias: bool,
    ) {
        let Some(client) = client() else { return Ok(()) };
        let keep = KeepProbability::from_drop(0.2).expect("a probability");
        for dtype in dtypes(&client) {
            let mut data = Data(seed);
            let n = rows * width;
            let x = data.floats(dtype, n, 0.0, 3.0);
            let r = data.floats(dtype, n, 1.0, 100.0);
            let b = data.floats(dtype, width, 0.5, 1.0);
            let shape = [rows, width];
            let [input, skip] = [&x, &r].map(|values| upload(&client, dtype, &shape, values));
            let shift = upload(&client, dtype, &[width], &b);
            let run = || dropout_add(
                &client, &input, residual.then_some(&skip), bias.then_some(&shift),
                DropoutMask::new(key(seed), keep),
            ).expect("valid operands");
            let output = run();

            let mask = mask(seed, keep, n);
            let expected: Vec<f64> = (0..n).map(|i| {
                let shifted = x[i] + if bias { b[i % width] } else { 0.0 };
                let skipped = if residual { r[i] } else { 0.0 };
                mask[i] * shifted + skipped
            }).collect();
            let scale = largest(&expected) + 10.0;
            assert_close("output", dtype, 4.0, scale, &download(&client, &output), &expected);
            prop_assert_eq!(bytes(&client, &run()), bytes(&client, &output));

            let drawn = DropoutMask::new(key(seed), keep);
            let gradients = dropout_add_backward(&client, &skip, bias, drawn)
                .expect("valid operands");
            let expected: Vec<f64> = (0..n).map(|i| mask[i] * r[i]).collect();
            let found = download(&client, &gradients.input);
            assert_close("gradient", dtype, 4.0, largest(&expected), &found, &expected);
            prop_assert_eq!(gradients.bias.is_some(), bias);
            if let Some(found) = gradients.bias {
                let sums: Vec<f64> = (0..width)
                    .map(|column| expected[column..].iter().step_by(width).sum())
                    .collect();
                let scale = largest(&expected) * rows as f64;
                assert_close("bias", dtype, 4.0, scale, &download(&client, &found), &sums);
            }
        }
    }
}
