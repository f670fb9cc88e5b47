//! One turn of one side: time, memory, values and gradients.

use std::time::{Duration, Instant};

use burn::prelude::*;
use lynx_benches::twins::{Function, Parameter};
use lynx_burn::memory::{live_bytes, peak_bytes, reset_peak};

/// What a forward and a backward cost.
pub(crate) struct Turn {
    pub(crate) forward: Duration,
    pub(crate) backward: Duration,
    /// Bytes held after forward: the output, and what backward needs besides the input.
    pub(crate) kept: u64,
    /// The most that both held at once, with the copy of the output that is compared, the product with
    /// the constant, and gradients.
    pub(crate) peak: u64,
}

/// What came out: values, the gradient of the input, and those of the parameters.
pub(crate) struct Outcome(Vec<(&'static str, TensorData)>);

pub(crate) fn turn(
    function: &Function,
    parameters: &[Parameter],
    input: &Tensor<3>,
    factor: &Tensor<3>,
) -> (Turn, Outcome) {
    let input = input.clone().detach().require_grad();
    let before = live_bytes();
    reset_peak();
    let begin = Instant::now();
    let output = function(input.clone());
    let forward = begin.elapsed();
    let values = output.to_data();
    // The copy that looking at the output made is not the function's.
    let copy = values.as_bytes().len() as u64;
    let kept = live_bytes().saturating_sub(before + copy);
    let end = (output * factor.clone()).sum();
    let begin = Instant::now();
    let gradients = end.backward();
    let backward = begin.elapsed();
    let peak = peak_bytes().saturating_sub(before);
    let gradient = input.grad(&gradients).expect("a gradient").into_data();
    let mut outcome = vec![("values", values), ("gradient", gradient)];
    outcome.extend(parameters.iter().map(|parameter| {
        let gradient = parameter.gradient(&gradients);
        ("a parameter's gradient", gradient.expect("a gradient"))
    }));
    let turn = Turn {
        forward,
        backward,
        kept,
        peak,
    };
    (turn, Outcome(outcome))
}

/// Compares what two sides found.
///
/// # Panics
///
/// If they differ by more than a share of the largest.
pub(crate) fn same(name: &str, found: &Outcome, expected: &Outcome) {
    for ((what, found), (_, expected)) in found.0.iter().zip(&expected.0) {
        let [found, expected] = [found, expected].map(|data| data.iter().collect::<Vec<f32>>());
        assert_eq!(found.len(), expected.len(), "{name}: how many {what}");
        let scale = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
        for (f, e) in found.iter().zip(&expected) {
            assert!((f - e).abs() <= 2e-5 * scale, "{name}, {what}: {f} for {e}");
        }
    }
}
