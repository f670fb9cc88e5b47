use super::*;
use crate::testing::*;

fn targets(rows: usize, classes: usize, ignored: usize) -> Vec<i64> {
    (0..rows)
        .map(|row| match row % 5 {
            0 if row < 5 * ignored => IGNORED,
            _ => (row * 7919 % classes) as i64,
        })
        .collect()
}

fn run(shape: CrossEntropy, logits: &[f32], targets: &[i64]) -> (f32, Vec<f32>, Vec<f32>) {
    let (mut losses, mut lse) = (vec![9.0; targets.len()], vec![9.0; targets.len()]);
    let loss = forward(shape, logits, targets, &mut losses, &mut lse).expect("valid");
    let mut dlogits = vec![9.0; logits.len()];
    backward(shape, logits, targets, &lse, 0.5, &mut dlogits).expect("valid");
    (loss, lse, dlogits)
}

#[test]
fn the_loss_and_its_gradient_are_those_of_the_reference() {
    for (rows, classes) in [(1, 1), (1, 9), (7, 33), (200, 256), (3, 50_257)] {
        for (deviation, ignored) in [(1.0, 0), (1e3, 0), (3.0, 1)] {
            let shape = CrossEntropy::new(rows, classes).expect("valid");
            let logits = normal(1, deviation, rows * classes);
            let targets = targets(rows, classes, if rows > 5 { ignored } else { 0 });
            let (loss, _, dlogits) = run(shape, &logits, &targets);
            let logits = wide(&logits);
            let expected = reference::forward(classes, &logits, &targets);
            // A loss is a difference of scores, off by their last bits.
            let error = (f64::from(loss) - expected).abs();
            assert!(
                error <= 3e-7 * (1.0 + 4.0 * deviation),
                "{loss} for {expected}"
            );
            let expected = reference::backward(classes, &logits, &targets, 0.5);
            // The exponent's own rounding: a logit of a thousand has four digits after the point.
            assert_close("dlogits", &dlogits, &expected, 1e-6 * deviation.max(1.0));
        }
    }
}

#[test]
fn a_class_at_minus_infinity_gets_no_gradient() {
    let shape = CrossEntropy::new(1, 3).expect("valid");
    let logits = [f32::NEG_INFINITY, 0.0, 0.0];
    let (loss, _, dlogits) = run(shape, &logits, &[1]);
    assert!((loss - std::f32::consts::LN_2).abs() < 1e-6);
    assert_eq!(dlogits[0], 0.0);
    assert!((dlogits[1] + 0.25).abs() < 1e-6 && (dlogits[2] - 0.25).abs() < 1e-6);
}

#[test]
fn the_reference_gradient_is_finite_differences() {
    let (rows, classes) = (6, 5);
    let targets = targets(rows, classes, 1);
    let logits = wide(&normal(1, 1.0, rows * classes));
    let gradient = reference::backward(classes, &logits, &targets, 1.0);
    for seed in 2..8 {
        let along = wide(&normal(seed, 1.0, logits.len()));
        let found = slope(
            |l| reference::forward(classes, l, &targets),
            &logits,
            &along,
        );
        assert!((found - dot(&gradient, &along)).abs() < 1e-8);
    }
}

#[test]
fn one_thread_and_many_give_the_same_bits() {
    let shape = CrossEntropy::new(900, 129).expect("valid");
    let logits = normal(1, 2.0, 900 * 129);
    let targets = targets(900, 129, 2);
    let run = || {
        let (loss, lse, dlogits) = run(shape, &logits, &targets);
        [vec![loss], lse, dlogits].concat()
    };
    let expected = on_threads(1, run);
    for threads in [1, 2, 5] {
        assert_same_bits("all", &on_threads(threads, run), &expected);
    }
}

#[test]
fn the_mean_of_nothing_is_no_number() {
    let shape = CrossEntropy::new(2, 2).expect("valid");
    let (loss, _, dlogits) = run(shape, &[0.0; 4], &[IGNORED; 2]);
    assert!(loss.is_nan());
    assert_eq!(dlogits, [0.0; 4]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert!(matches!(
        CrossEntropy::new(1, 0),
        Err(KernelError::Zero { .. })
    ));
    let shape = CrossEntropy::new(2, 3).expect("valid");
    for bad in [3, -2] {
        let found = forward(shape, &[0.0; 6], &[0, bad], &mut [0.0; 2], &mut [0.0; 2]);
        assert_eq!(
            found,
            Err(KernelError::Target {
                row: 1,
                target: bad,
                classes: 3
            })
        );
    }
    let found = backward(shape, &[0.0; 6], &[0, 1], &[0.0; 3], 1.0, &mut [0.0; 6]);
    assert!(found.expect_err("lse").to_string().contains("lse has 3"));
}
