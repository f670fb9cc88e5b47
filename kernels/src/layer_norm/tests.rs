use super::*;
use crate::testing::*;

struct Case {
    shape: LayerNorm,
    x: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    dy: Vec<f32>,
}

impl Case {
    fn new(rows: usize, width: usize, deviation: f64, offset: f32) -> Self {
        let mut x = normal(1, deviation, rows * width);
        x.iter_mut().for_each(|v| *v += offset);
        Self {
            shape: LayerNorm::new(rows, width, 1e-5).expect("valid"),
            x,
            gamma: normal(2, 1.0, width),
            beta: normal(3, 1.0, width),
            dy: normal(4, 1.0, rows * width),
        }
    }

    fn forward(&self) -> [Vec<f32>; 3] {
        let rows = self.shape.rows();
        let (mut y, mut mean, mut rstd) =
            (vec![9.0; self.x.len()], vec![9.0; rows], vec![9.0; rows]);
        forward(
            self.shape,
            &self.x,
            &self.gamma,
            Some(&self.beta),
            &mut y,
            &mut mean,
            &mut rstd,
        )
        .expect("valid");
        [y, mean, rstd]
    }

    fn backward(&self, mean: &[f32], rstd: &[f32]) -> [Vec<f32>; 3] {
        let width = self.shape.width();
        let (mut dx, mut dgamma, mut dbeta) =
            (vec![9.0; self.x.len()], vec![9.0; width], vec![9.0; width]);
        backward(
            self.shape,
            &self.x,
            &self.gamma,
            mean,
            rstd,
            &self.dy,
            &mut dx,
            &mut dgamma,
            &mut dbeta,
        )
        .expect("valid");
        [dx, dgamma, dbeta]
    }
}

const SHAPES: [(usize, usize); 8] = [
    (1, 1),
    (1, 7),
    (3, 33),
    (5, 64),
    (130, 31),
    (67, 256),
    (2, 20_001),
    (0, 5),
];

#[test]
fn results_and_gradients_are_those_of_the_reference() {
    for (rows, width) in SHAPES {
        for (deviation, offset) in [(1.0, 0.0), (1e4, 0.0), (1.0, 100.0)] {
            let case = Case::new(rows, width, deviation, offset);
            let (x, gamma) = (wide(&case.x), wide(&case.gamma));
            let [y, mean, rstd] = case.forward();
            let (y64, mean64, rstd64) =
                reference::forward(case.shape, &x, &gamma, &wide(&case.beta));
            // An offset of so many deviations takes its digits from the normalised value.
            let lost = 1.0 + f64::from(offset) / deviation;
            assert_close("y", &y, &y64, 2e-6 * lost);
            assert_close("mean", &mean, &mean64, 1e-5);
            assert_close("rstd", &rstd, &rstd64, 1e-5);
            let [dx, dgamma, dbeta] = case.backward(&mean, &rstd);
            let (dx64, dgamma64, dbeta64) =
                reference::backward(case.shape, &x, &gamma, &wide(&case.dy));
            // A row of one element has no gradient but rounding, times rstd = 316.
            if width > 1 {
                assert_close("dx", &dx, &dx64, 1e-5 * lost);
            }
            assert_close("dgamma", &dgamma, &dgamma64, 1e-5 * lost);
            assert_close("dbeta", &dbeta, &dbeta64, 1e-5);
        }
    }
}

#[test]
fn the_reference_gradients_are_finite_differences() {
    let case = Case::new(4, 9, 1.0, 0.0);
    let (x, gamma, beta, dy) = (
        wide(&case.x),
        wide(&case.gamma),
        wide(&case.beta),
        wide(&case.dy),
    );
    let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| {
        dot(&reference::forward(case.shape, x, gamma, beta).0, &dy)
    };
    let (dx, dgamma, dbeta) = reference::backward(case.shape, &x, &gamma, &dy);
    for seed in 10..20 {
        let along = wide(&normal(seed, 1.0, x.len()));
        let found = slope(|x| loss(x, &gamma, &beta), &x, &along);
        assert!((found - dot(&dx, &along)).abs() < 1e-6);
        let along = wide(&normal(seed, 1.0, gamma.len()));
        let found = slope(|gamma| loss(&x, gamma, &beta), &gamma, &along);
        assert!((found - dot(&dgamma, &along)).abs() < 1e-6);
        let found = slope(|beta| loss(&x, &gamma, beta), &beta, &along);
        assert!((found - dot(&dbeta, &along)).abs() < 1e-6);
    }
}

#[test]
fn recompute_gives_the_bits_of_forward() {
    for (rows, width) in SHAPES {
        for with_beta in [true, false] {
            let case = Case::new(rows, width, 3.0, 1.0);
            let beta = with_beta.then_some(&case.beta[..]);
            let [mut y, mut mean, mut rstd] = case.forward();
            forward(
                case.shape,
                &case.x,
                &case.gamma,
                beta,
                &mut y,
                &mut mean,
                &mut rstd,
            )
            .expect("valid");
            let mut again = vec![9.0; y.len()];
            recompute(
                case.shape,
                &case.x,
                &case.gamma,
                beta,
                &mean,
                &rstd,
                &mut again,
            )
            .expect("valid");
            assert_same_bits("y", &y, &again);
        }
    }
}

#[test]
fn one_thread_and_many_give_the_same_bits() {
    let case = Case::new(1000, 257, 1.0, 0.0);
    let run = || {
        let [y, mean, rstd] = case.forward();
        let gradients = case.backward(&mean, &rstd);
        [[y, mean, rstd], gradients].concat().concat()
    };
    let expected = on_threads(1, run);
    for threads in [2, 3, 8] {
        assert_same_bits("all", &on_threads(threads, run), &expected);
    }
}

#[test]
fn without_beta_the_result_is_that_of_a_zero_beta() {
    let case = Case {
        beta: vec![0.0; 40],
        ..Case::new(6, 40, 1.0, 0.0)
    };
    let [expected, mut mean, mut rstd] = case.forward();
    let mut y = vec![0.0; expected.len()];
    forward(
        case.shape,
        &case.x,
        &case.gamma,
        None,
        &mut y,
        &mut mean,
        &mut rstd,
    )
    .expect("valid");
    assert_eq!(y, expected);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert_eq!(
        LayerNorm::new(1, 0, 0.0),
        Err(KernelError::Zero {
            kernel: KERNEL,
            size: "the width"
        })
    );
    assert!(matches!(
        LayerNorm::new(usize::MAX, 2, 0.0),
        Err(KernelError::Overflow { .. })
    ));
    for epsilon in [-1.0, f32::NAN, f32::INFINITY] {
        assert!(matches!(
            LayerNorm::new(1, 2, epsilon),
            Err(KernelError::Epsilon(_))
        ));
    }
    let shape = LayerNorm::new(2, 3, 1e-5).expect("valid");
    let (x, w, r) = (&[0.0; 6], &[0.0; 3], &[0.0; 2]);
    let found = recompute(shape, x, w, Some(&[0.0; 2]), r, r, &mut [0.0; 6]).expect_err("beta");
    assert_eq!(
        found.to_string(),
        "layer norm: beta has 2 elements, the shape asks for 3"
    );
    let found = forward(
        shape,
        x,
        w,
        None,
        &mut [0.0; 5],
        &mut [0.0; 2],
        &mut [0.0; 2],
    );
    assert!(found.expect_err("y").to_string().contains("y has 5"));
    let found = backward(
        shape,
        x,
        w,
        r,
        r,
        x,
        &mut [0.0; 6],
        &mut [0.0; 3],
        &mut [0.0; 4],
    );
    assert!(
        found
            .expect_err("dbeta")
            .to_string()
            .contains("dbeta has 4")
    );
}
