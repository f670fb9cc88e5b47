use super::*;
use crate::random::DropoutMask;
use crate::testing::*;

/// Batch, sequence, heads, width of a head.
type Sizes = (usize, usize, usize, usize);

/// One position; odd sizes; a tile and one more; more than a panel.
const SIZES: [Sizes; 8] = [
    (1, 1, 1, 1),
    (2, 5, 3, 7),
    (1, 17, 2, 8),
    (2, 64, 1, 32),
    (1, 65, 2, 16),
    (1, 200, 1, 5),
    (1, 513, 1, 4),
    (0, 3, 2, 4),
];

struct Case {
    shape: Attention,
    qkv: Vec<f32>,
    dout: Vec<f32>,
    drop: f64,
}

impl Case {
    fn new((batch, seq, heads, d_head): Sizes, deviation: f64, drop: f64) -> Self {
        let shape = Attention::new(batch, seq, heads, d_head).expect("valid");
        Self {
            shape,
            qkv: normal(1, deviation, 3 * shape.elements()),
            dout: normal(2, 1.0, shape.elements()),
            drop,
        }
    }

    fn mask(&self) -> Option<DropoutMask> {
        (self.drop > 0.0).then(|| mask(3, self.drop))
    }

    fn mask_values(&self) -> Vec<f64> {
        match self.drop {
            0.0 => Vec::new(),
            drop => mask_values(3, drop, self.shape.queries() * self.shape.seq()),
        }
    }

    fn forward(&self) -> [Vec<f32>; 2] {
        let mut out = vec![9.0; self.shape.elements()];
        let mut lse = vec![9.0; self.shape.queries()];
        forward(self.shape, &self.qkv, self.mask(), &mut out, &mut lse).expect("valid");
        [out, lse]
    }

    fn backward(&self, out: &[f32], lse: &[f32]) -> Vec<f32> {
        let mut dqkv = vec![9.0; self.qkv.len()];
        let mask = self.mask();
        backward(self.shape, &self.qkv, mask, out, lse, &self.dout, &mut dqkv).expect("valid");
        dqkv
    }
}

#[test]
fn results_and_gradients_are_those_of_the_reference() {
    for sizes in SIZES {
        for drop in [0.0, 0.3] {
            for deviation in [1.0, 8.0] {
                let case = Case::new(sizes, deviation, drop);
                let (qkv, mask) = (wide(&case.qkv), case.mask_values());
                let [out, lse] = case.forward();
                let (out64, lse64) = reference::forward(case.shape, &qkv, &mask);
                // Scores grow with the square of the deviation, and an absolute error of theirs is a
                // relative one of the weights.
                let tolerance = 2e-6 * deviation * deviation;
                assert_close("out", &out, &out64, tolerance);
                assert_close("lse", &lse, &lse64, 1e-6);
                let dqkv = case.backward(&out, &lse);
                let expected = reference::backward(case.shape, &qkv, &mask, &wide(&case.dout));
                assert_close("dqkv", &dqkv, &expected, 2.0 * tolerance);
            }
        }
    }
}

#[test]
fn the_reference_gradient_is_finite_differences() {
    for drop in [0.0, 0.3] {
        let case = Case::new((2, 6, 2, 3), 1.0, drop);
        let (qkv, mask, dout) = (wide(&case.qkv), case.mask_values(), wide(&case.dout));
        let gradient = reference::backward(case.shape, &qkv, &mask, &dout);
        for seed in 4..10 {
            let along = wide(&normal(seed, 1.0, qkv.len()));
            let loss = |qkv: &[f64]| dot(&reference::forward(case.shape, qkv, &mask).0, &dout);
            let found = slope(loss, &qkv, &along);
            assert!((found - dot(&gradient, &along)).abs() < 1e-6, "{found}");
        }
    }
}

#[test]
fn recompute_gives_the_bits_of_forward() {
    for sizes in SIZES {
        for drop in [0.0, 0.3] {
            let case = Case::new(sizes, 2.0, drop);
            let [out, lse] = case.forward();
            let mut again = vec![9.0; out.len()];
            recompute(case.shape, &case.qkv, case.mask(), &lse, &mut again).expect("valid");
            assert_same_bits("out", &out, &again);
        }
    }
}

#[test]
fn one_thread_and_many_give_the_same_bits() {
    let case = Case::new((3, 100, 3, 12), 1.0, 0.1);
    let run = || {
        let [out, lse] = case.forward();
        let dqkv = case.backward(&out, &lse);
        [out, lse, dqkv].concat()
    };
    let expected = on_threads(1, run);
    for threads in [2, 3, 8] {
        assert_same_bits("all", &on_threads(threads, run), &expected);
    }
}

#[test]
fn what_comes_later_changes_nothing_before_it() {
    let case = Case::new((1, 70, 2, 8), 1.0, 0.0);
    let [out, _] = case.forward();
    let mut changed = Case::new((1, 70, 2, 8), 1.0, 0.0);
    let row = 3 * 2 * 8;
    changed.qkv[50 * row..].fill(1e4);
    let [other, _] = changed.forward();
    assert_same_bits("out", &out[..50 * 16], &other[..50 * 16]);
}

#[test]
fn a_huge_score_takes_all_the_weight_and_overflows_nothing() {
    let shape = Attention::new(1, 3, 1, 1)
        .expect("valid")
        .with_scale(1.0)
        .expect("finite");
    // Query, key, value of three positions: scores of the last query are 0, 1e6 and -1e6.
    let qkv = [0.0, 0.0, 5.0, 0.0, 1e3, 7.0, 1e3, -1e3, 9.0];
    let (mut out, mut lse) = ([0.0; 3], [0.0; 3]);
    forward(shape, &qkv, None, &mut out, &mut lse).expect("valid");
    assert_eq!(out, [5.0, 6.0, 7.0]);
    let mut dqkv = [9.0; 9];
    backward(shape, &qkv, None, &out, &lse, &[0.0, 0.0, 1.0], &mut dqkv).expect("valid");
    assert_eq!(dqkv, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    for (seq, heads, d_head) in [(0, 1, 1), (1, 0, 1), (1, 1, 0)] {
        assert!(matches!(
            Attention::new(1, seq, heads, d_head),
            Err(KernelError::Zero { .. })
        ));
    }
    assert!(matches!(
        Attention::new(usize::MAX, 2, 2, 2),
        Err(KernelError::Overflow { .. })
    ));
    let shape = Attention::new(1, 2, 1, 2).expect("valid");
    assert!(matches!(
        shape.with_scale(f32::NAN),
        Err(KernelError::Scale(_))
    ));
    let found = forward(shape, &[0.0; 11], None, &mut [0.0; 4], &mut [0.0; 2]);
    assert_eq!(
        found.expect_err("qkv").to_string(),
        "attention: qkv has 11 elements, the shape asks for 12"
    );
    let found = recompute(shape, &[0.0; 12], None, &[0.0; 1], &mut [0.0; 4]);
    assert!(found.expect_err("lse").to_string().contains("lse has 1"));
    let (n, three) = ([0.0; 4], [0.0; 12]);
    let found = backward(shape, &three, None, &n, &[0.0; 2], &n, &mut [0.0; 3]);
    assert!(found.expect_err("dqkv").to_string().contains("dqkv has 3"));
}
