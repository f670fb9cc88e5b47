use super::*;
use crate::testing::*;

const FORMS: [Form; 2] = [Form::Erf, Form::Tanh];
const SHAPES: [(usize, usize); 6] = [(1, 1), (1, 13), (7, 33), (300, 100), (3, 20_001), (0, 4)];

fn run(shape: Gelu, x: &[f32], bias: Option<&[f32]>, dy: &[f32]) -> [Vec<f32>; 3] {
    let (mut y, mut dx) = (vec![9.0; x.len()], vec![9.0; x.len()]);
    let mut dbias = vec![9.0; shape.width()];
    forward(shape, x, bias, &mut y).expect("valid");
    backward(shape, x, bias, dy, &mut dx, Some(&mut dbias)).expect("valid");
    [y, dx, dbias]
}

#[test]
fn results_and_gradients_are_those_of_the_reference() {
    for form in FORMS {
        for (rows, width) in SHAPES {
            for deviation in [1.0, 4.0, 1e6] {
                let shape = Gelu::new(form, rows, width).expect("valid");
                let (x, dy) = (
                    normal(1, deviation, rows * width),
                    normal(2, 1.0, rows * width),
                );
                let bias = normal(3, 1.0, width);
                let [y, dx, dbias] = run(shape, &x, Some(&bias), &dy);
                // The sum as it is rounded before the function.
                let sums: Vec<f64> = (0..x.len())
                    .map(|i| f64::from(x[i] + bias[i % width]))
                    .collect();
                let y64: Vec<f64> = sums.iter().map(|&x| reference::forward(form, x)).collect();
                assert_close("y", &y, &y64, 1e-6);
                let dx64: Vec<f64> = (0..x.len())
                    .map(|i| f64::from(dy[i]) * reference::derivative(form, sums[i]))
                    .collect();
                // One minus the logistic function is off by its last bit, times up to ten.
                assert_close("dx", &dx, &dx64, 2e-6);
                let mut dbias64 = vec![0.0; width];
                dx64.iter()
                    .enumerate()
                    .for_each(|(i, d)| dbias64[i % width] += d);
                // Sums of up to 300 terms whose signs cancel.
                assert_close("dbias", &dbias, &dbias64, 1e-5);
            }
        }
    }
}

#[test]
fn every_float_of_a_dense_grid_is_within_two_millionths() {
    for form in FORMS {
        let x: Vec<f32> = (-200_000..=200_000).map(|i| i as f32 / 15_000.0).collect();
        let shape = Gelu::new(form, 1, x.len()).expect("valid");
        let ones = vec![1.0; x.len()];
        let [y, dx, _] = run(shape, &x, None, &ones);
        for (i, &x) in x.iter().enumerate() {
            let x = f64::from(x);
            let error = (f64::from(y[i]) - reference::forward(form, x)).abs();
            assert!(error <= 5e-7 * (1.0 + x.abs()), "{form:?} {x}: {error}");
            let error = (f64::from(dx[i]) - reference::derivative(form, x)).abs();
            assert!(error <= 2e-6, "{form:?}' {x}: {error}");
        }
    }
}

#[test]
fn the_ends_are_the_line_and_zero() {
    for form in FORMS {
        let x = [f32::NEG_INFINITY, -1e30, f32::INFINITY, 1e30, f32::NAN];
        let shape = Gelu::new(form, 1, 5).expect("valid");
        let [y, dx, _] = run(shape, &x, None, &[1.0; 5]);
        assert!(y[0].abs() < 1e-30 && y[1].abs() < 1e-30, "{form:?} {y:?}");
        assert_eq!(&y[2..4], &[f32::INFINITY, 1e30], "{form:?}");
        assert!(
            dx[0].abs() < 1e-30 && dx[1].abs() < 1e-30,
            "{form:?} {dx:?}"
        );
        assert_eq!(&dx[2..4], &[1.0, 1.0], "{form:?}");
        assert!(y[4].is_nan() && dx[4].is_nan(), "{form:?}");
    }
}

#[test]
fn forward_again_and_other_numbers_of_threads_give_the_same_bits() {
    for form in FORMS {
        let shape = Gelu::new(form, 700, 129).expect("valid");
        let (x, dy) = (normal(1, 2.0, 700 * 129), normal(2, 1.0, 700 * 129));
        let bias = normal(3, 1.0, 129);
        let run = || run(shape, &x, Some(&bias), &dy).concat();
        let expected = on_threads(1, run);
        for threads in [1, 2, 5] {
            assert_same_bits("all", &on_threads(threads, run), &expected);
        }
    }
}

#[test]
fn without_a_bias_the_results_are_those_of_a_zero_bias() {
    let shape = Gelu::new(Form::Erf, 9, 50).expect("valid");
    let (x, dy) = (normal(1, 2.0, 450), normal(2, 1.0, 450));
    let found = run(shape, &x, None, &dy).concat();
    let expected = run(shape, &x, Some(&[0.0; 50]), &dy).concat();
    assert_eq!(found, expected);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert!(matches!(
        Gelu::new(Form::Erf, 1, 0),
        Err(KernelError::Zero { .. })
    ));
    let shape = Gelu::new(Form::Erf, 2, 2).expect("valid");
    let found = forward(shape, &[0.0; 4], Some(&[0.0; 3]), &mut [0.0; 4]);
    assert_eq!(
        found.expect_err("bias").to_string(),
        "gelu: bias has 3 elements, the shape asks for 2"
    );
    let found = backward(shape, &[0.0; 4], None, &[0.0; 3], &mut [0.0; 4], None);
    assert!(found.expect_err("dy").to_string().contains("dy has 3"));
}
