//! Ours and Burn's in turns: time, memory, values and gradients.

use std::time::{Duration, Instant};

use burn::prelude::*;
use burn::tensor::Distribution;
use lynx_benches::rounds::{quantile, spread_ms};
use lynx_burn::memory::{live_bytes, peak_bytes, reset_peak};
use serde::Serialize;

use crate::pairs::{Function, Pair, attention};
use crate::{BATCH, ROUNDS, WIDTH, device};

/// What one side of a pair costs.
#[derive(Clone, Serialize)]
pub(crate) struct Side {
    /// Median and quartiles, in milliseconds.
    pub(crate) forward_ms: [f64; 3],
    pub(crate) backward_ms: [f64; 3],
    /// Bytes held after forward: the output, and what backward needs besides the input.
    pub(crate) kept_bytes: u64,
    /// The most that forward and backward held at once, with the copy of the output that is compared
    /// and the product with the constant.
    pub(crate) peak_bytes: u64,
}

#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) operation: String,
    pub(crate) in_layer: f64,
    pub(crate) ours: Side,
    pub(crate) burns: Side,
    /// Burn's time over ours in the same round: median and quartiles.
    pub(crate) forward_speedup: [f64; 3],
    pub(crate) backward_speedup: [f64; 3],
}

#[derive(Serialize)]
pub(crate) struct Growth {
    pub(crate) seq: usize,
    pub(crate) ours_kept_bytes: u64,
    pub(crate) burns_kept_bytes: u64,
    pub(crate) ours_peak_bytes: u64,
    pub(crate) burns_peak_bytes: u64,
}

/// One forward and backward.
struct Run {
    forward: Duration,
    backward: Duration,
    kept: u64,
    peak: u64,
    values: Vec<f32>,
    gradient: Vec<f32>,
}

fn run(function: &Function, input: &Tensor<3>, factor: &Tensor<3>) -> Run {
    let input = input.clone().detach().require_grad();
    let before = live_bytes();
    reset_peak();
    let begin = Instant::now();
    let output = function(input.clone());
    let forward = begin.elapsed();
    let values = output.to_data();
    let kept = live_bytes().saturating_sub(before + output_bytes(&values));
    let end = (output * factor.clone()).sum();
    let begin = Instant::now();
    let gradients = end.backward();
    let backward = begin.elapsed();
    let peak = peak_bytes().saturating_sub(before);
    let gradient = input.grad(&gradients).expect("a gradient").into_data();
    Run {
        forward,
        backward,
        kept,
        peak,
        values: values.iter().collect(),
        gradient: gradient.iter().collect(),
    }
}

/// The copy that looking at the output made.
fn output_bytes(values: &TensorData) -> u64 {
    values.as_bytes().len() as u64
}

pub(crate) fn compare(pair: Pair) -> Row {
    let device = device();
    let input = Tensor::<3>::random(pair.shape, Distribution::Normal(0.0, 1.0), &device);
    let out = (pair.ours)(input.clone().detach()).dims();
    let factor = Tensor::<3>::random(out, Distribution::Normal(0.0, 1.0), &device);
    let [ours, burns] = [&pair.ours, &pair.burns].map(|f| run(f, &input, &factor));
    same(&pair.name, &ours.values, &burns.values);
    same(&pair.name, &ours.gradient, &burns.gradient);
    let mut times = [const { Vec::new() }; 2];
    for round in 0..ROUNDS {
        for offset in 0..2 {
            let side = (round + offset) % 2;
            let function = [&pair.ours, &pair.burns][side];
            times[side].push(run(function, &input, &factor));
        }
    }
    let ratio = |of: fn(&Run) -> Duration| {
        let ratios: Vec<f64> = times[0]
            .iter()
            .zip(&times[1])
            .map(|(ours, burns)| of(burns).as_secs_f64() / of(ours).as_secs_f64())
            .collect();
        [0.5, 0.25, 0.75].map(|q| quantile(&ratios, q))
    };
    let side = |first: &Run, runs: &[Run]| {
        let of = |part: fn(&Run) -> Duration| spread_ms(&runs.iter().map(part).collect::<Vec<_>>());
        Side {
            forward_ms: of(|run| run.forward),
            backward_ms: of(|run| run.backward),
            kept_bytes: first.kept,
            peak_bytes: first.peak,
        }
    };
    Row {
        forward_speedup: ratio(|run| run.forward),
        backward_speedup: ratio(|run| run.backward),
        ours: side(&ours, &times[0]),
        burns: side(&burns, &times[1]),
        operation: pair.name,
        in_layer: pair.in_layer,
    }
}

fn same(name: &str, found: &[f32], expected: &[f32]) {
    let scale = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() <= 2e-5 * scale, "{name}: {f} for {e}");
    }
}

pub(crate) fn layer_speedup(rows: &[Row]) -> [f64; 3] {
    let sum = |of: fn(&Row) -> f64| rows.iter().map(|row| row.in_layer * of(row)).sum::<f64>();
    let ours = [
        sum(|row| row.ours.forward_ms[0]),
        sum(|row| row.ours.backward_ms[0]),
    ];
    let burns = [
        sum(|row| row.burns.forward_ms[0]),
        sum(|row| row.burns.backward_ms[0]),
    ];
    [
        burns[0] / ours[0],
        burns[1] / ours[1],
        (burns[0] + burns[1]) / (ours[0] + ours[1]),
    ]
}

pub(crate) fn growth(seq: usize) -> Growth {
    let pair = attention(seq, 0.0, 0.0);
    let input = Tensor::<3>::random(pair.shape, Distribution::Normal(0.0, 1.0), &device());
    let factor = Tensor::ones([BATCH, seq, WIDTH], &device());
    let [ours, burns] = [&pair.ours, &pair.burns].map(|f| run(f, &input, &factor));
    Growth {
        seq,
        ours_kept_bytes: ours.kept,
        burns_kept_bytes: burns.kept,
        ours_peak_bytes: ours.peak,
        burns_peak_bytes: burns.peak,
    }
}
