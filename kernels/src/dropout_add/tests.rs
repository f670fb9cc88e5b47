use super::*;
use crate::testing::*;

#[test]
fn results_and_gradients_are_those_of_the_reference() {
    for (rows, width) in [(1, 1), (1, 13), (9, 33), (300, 100), (2, 20_001), (0, 4)] {
        for drop in [0.0, 0.3, 0.9] {
            let n = rows * width;
            let shape = DropoutAdd::new(rows, width).expect("valid");
            let (x, residual, bias) = (normal(1, 1e3, n), normal(2, 1.0, n), normal(3, 1.0, width));
            let dy = normal(4, 1.0, n);
            let values = mask_values(7, drop, n);
            for (bias, residual) in [
                (None, None),
                (Some(&bias[..]), None),
                (None, Some(&residual[..])),
                (Some(&bias[..]), Some(&residual[..])),
            ] {
                let mut y = vec![9.0; n];
                forward(shape, &x, bias, residual, mask(7, drop), &mut y).expect("valid");
                let expected = reference::forward(
                    width,
                    &wide(&x),
                    &wide(bias.unwrap_or_default()),
                    &wide(residual.unwrap_or_default()),
                    &values,
                );
                assert_close("y", &y, &expected, 2e-7);
            }
            let (mut dx, mut dbias) = (vec![9.0; n], vec![9.0; width]);
            backward(shape, &dy, mask(7, drop), &mut dx, Some(&mut dbias)).expect("valid");
            let (dx64, dbias64) = reference::backward(width, &wide(&dy), &values);
            assert_close("dx", &dx, &dx64, 2e-7);
            assert_close("dbias", &dbias, &dbias64, 1e-5);
            let mut again = vec![9.0; n];
            backward(shape, &dy, mask(7, drop), &mut again, None).expect("valid");
            assert_same_bits("dx", &dx, &again);
        }
    }
}

#[test]
fn the_reference_gradient_is_finite_differences() {
    let (width, n) = (5, 20);
    let (x, bias, dy) = (
        wide(&normal(1, 1.0, n)),
        wide(&normal(2, 1.0, width)),
        wide(&normal(3, 1.0, n)),
    );
    let mask = mask_values(1, 0.4, n);
    let (dx, dbias) = reference::backward(width, &dy, &mask);
    let along = wide(&normal(4, 1.0, n));
    let loss = |x: &[f64], bias: &[f64]| dot(&reference::forward(width, x, bias, &[], &mask), &dy);
    assert!((slope(|x| loss(x, &bias), &x, &along) - dot(&dx, &along)).abs() < 1e-8);
    let along = &along[..width];
    assert!((slope(|b| loss(&x, b), &bias, along) - dot(&dbias, along)).abs() < 1e-8);
}

#[test]
fn forward_again_and_other_numbers_of_threads_give_the_same_bits() {
    let (rows, width) = (700, 129);
    let n = rows * width;
    let shape = DropoutAdd::new(rows, width).expect("valid");
    let (x, residual, bias) = (normal(1, 1.0, n), normal(2, 1.0, n), normal(3, 1.0, width));
    let run = || {
        let (mut y, mut dx, mut dbias) = (vec![0.0; n], vec![0.0; n], vec![0.0; width]);
        forward(
            shape,
            &x,
            Some(&bias),
            Some(&residual),
            mask(5, 0.1),
            &mut y,
        )
        .expect("valid");
        backward(shape, &x, mask(5, 0.1), &mut dx, Some(&mut dbias)).expect("valid");
        [y, dx, dbias].concat()
    };
    let expected = on_threads(1, run);
    for threads in [1, 2, 5] {
        assert_same_bits("all", &on_threads(threads, run), &expected);
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert!(matches!(
        DropoutAdd::new(1, 0),
        Err(KernelError::Zero { .. })
    ));
    let shape = DropoutAdd::new(2, 2).expect("valid");
    let residual = Some(&[0.0; 3][..]);
    let found = forward(
        shape,
        &[0.0; 4],
        None,
        residual,
        mask(1, 0.5),
        &mut [0.0; 4],
    );
    assert_eq!(
        found.expect_err("residual").to_string(),
        "dropout and add: residual has 3 elements, the shape asks for 4"
    );
    let found = backward(
        shape,
        &[0.0; 4],
        mask(1, 0.5),
        &mut [0.0; 4],
        Some(&mut [0.0; 5]),
    );
    assert!(
        found
            .expect_err("dbias")
            .to_string()
            .contains("dbias has 5")
    );
}
