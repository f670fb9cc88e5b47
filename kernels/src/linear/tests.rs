use super::*;
use crate::testing::*;

/// One row, none, odd sizes, more than one band of rows and of inputs, long sums.
const SHAPES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (1, 5, 3),
    (0, 4, 2),
    (7, 33, 13),
    (1100, 17, 9),
    (65, 300, 40),
    (3, 1000, 2),
    (257, 130, 129),
];

struct Case {
    shape: Linear,
    x: Vec<f32>,
    w: Vec<f32>,
    bias: Vec<f32>,
    dy: Vec<f32>,
}

impl Case {
    fn new((rows, inputs, outputs): (usize, usize, usize), deviation: f64) -> Self {
        Self {
            shape: Linear::new(rows, inputs, outputs).expect("valid"),
            x: normal(1, deviation, rows * inputs),
            w: normal(2, 1.0, inputs * outputs),
            bias: normal(3, deviation, outputs),
            dy: normal(4, 1.0, rows * outputs),
        }
    }

    /// `y`, `dx`, `dw` and `dbias`.
    fn run(&self, stored: Stored) -> [Vec<f32>; 4] {
        let (shape, x, dy) = (self.shape, &self.x, &self.dy);
        let turned;
        let w = match stored {
            Stored::ByInput => &self.w,
            Stored::ByOutput => {
                turned = transposed(&self.w, shape.inputs(), shape.outputs());
                &turned
            }
        };
        // What is there before must not matter.
        let mut y = vec![f32::NAN; dy.len()];
        let mut dx = vec![f32::NAN; x.len()];
        let mut dw = vec![f32::NAN; w.len()];
        let mut dbias = vec![f32::NAN; self.bias.len()];
        forward(shape, x, w, stored, Some(&self.bias), &mut y).expect("valid");
        input_gradient(shape, w, stored, dy, &mut dx).expect("valid");
        weight_gradient(shape, x, dy, &mut dw).expect("valid");
        bias_gradient(shape, dy, &mut dbias).expect("valid");
        [y, dx, dw, dbias]
    }
}

fn transposed(w: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..w.len())
        .map(|index| w[index % rows * columns + index / rows])
        .collect()
}

#[test]
fn results_and_gradients_are_those_of_the_reference() {
    for sizes in SHAPES {
        for deviation in [1.0, 1e4] {
            let case = Case::new(sizes, deviation);
            let [x, w, bias, dy] = [&case.x, &case.w, &case.bias, &case.dy].map(|v| wide(v));
            let y64 = reference::forward(case.shape, &x, &w, Some(&bias));
            let dx64 = reference::input_gradient(case.shape, &w, &dy);
            let dw64 = reference::weight_gradient(case.shape, &x, &dy);
            let dbias64 = reference::bias_gradient(case.shape, &dy);
            for stored in [Stored::ByInput, Stored::ByOutput] {
                let [y, dx, dw, dbias] = case.run(stored);
                assert_close("y", &y, &y64, 3e-6);
                assert_close("dx", &dx, &dx64, 3e-6);
                assert_close("dw", &dw, &dw64, 3e-6);
                assert_close("dbias", &dbias, &dbias64, 1e-5);
            }
        }
    }
}

#[test]
fn gradients_are_the_limits_of_differences() {
    let case = Case::new((5, 7, 4), 1.0);
    let [x, w, bias, dy] = [&case.x, &case.w, &case.bias, &case.dy].map(|v| wide(v));
    let [_, dx, dw, dbias] = case.run(Stored::ByInput).map(|v| wide(&v));
    let value = |x: &[f64], w: &[f64], bias: &[f64]| {
        dot(&reference::forward(case.shape, x, w, Some(bias)), &dy)
    };
    let close = |what: &str, slope: f64, found: f64| {
        assert!((slope - found).abs() < 1e-4, "{what}: {found} for {slope}");
    };
    let along = |seed, n| wide(&normal(seed, 1.0, n));
    let direction = along(11, x.len());
    let expected = slope(|x| value(x, &w, &bias), &x, &direction);
    close("dx", expected, dot(&dx, &direction));
    let direction = along(12, w.len());
    let expected = slope(|w| value(&x, w, &bias), &w, &direction);
    close("dw", expected, dot(&dw, &direction));
    let direction = along(13, bias.len());
    let expected = slope(|bias| value(&x, &w, bias), &bias, &direction);
    close("dbias", expected, dot(&dbias, &direction));
}

#[test]
fn other_numbers_of_threads_give_the_same_bits() {
    for sizes in [(1100, 300, 70), (300, 700, 257)] {
        let case = Case::new(sizes, 1.0);
        for stored in [Stored::ByInput, Stored::ByOutput] {
            let expected = on_threads(1, || case.run(stored).concat());
            for threads in [1, 2, 5] {
                let found = on_threads(threads, || case.run(stored).concat());
                assert_same_bits("all", &found, &expected);
            }
        }
    }
}

#[test]
fn without_a_bias_the_result_is_that_of_a_zero_bias() {
    let case = Case::new((70, 9, 33), 1.0);
    let run = |bias: Option<&[f32]>| {
        let mut y = vec![f32::NAN; 70 * 33];
        forward(case.shape, &case.x, &case.w, Stored::ByInput, bias, &mut y).expect("valid");
        y
    };
    assert_eq!(run(None), run(Some(&[0.0; 33])));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert!(matches!(
        Linear::new(3, 0, 1),
        Err(KernelError::Zero { .. })
    ));
    assert!(matches!(
        Linear::new(1, usize::MAX, 2),
        Err(KernelError::Overflow { .. })
    ));
    let shape = Linear::new(2, 3, 4).expect("valid");
    let found = forward(
        shape,
        &[0.0; 6],
        &[0.0; 12],
        Stored::ByInput,
        Some(&[0.0; 3]),
        &mut [0.0; 8],
    );
    assert_eq!(
        found.expect_err("bias").to_string(),
        "linear: bias has 3 elements, the shape asks for 4"
    );
    let found = input_gradient(shape, &[0.0; 12], Stored::ByInput, &[0.0; 7], &mut [0.0; 6]);
    assert!(found.expect_err("dy").to_string().contains("dy has 7"));
    let found = weight_gradient(shape, &[0.0; 6], &[0.0; 8], &mut [0.0; 11]);
    assert!(found.expect_err("dw").to_string().contains("dw has 11"));
    let found = bias_gradient(shape, &[0.0; 8], &mut [0.0; 5]);
    assert!(
        found
            .expect_err("dbias")
            .to_string()
            .contains("dbias has 5")
    );
}
