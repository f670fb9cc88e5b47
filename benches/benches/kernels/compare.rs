//! Ours and Burn's in turns.

use std::time::Duration;

use burn::prelude::*;
use lynx_benches::rounds::{quantile, spread_ms};
use lynx_benches::twins::{BATCH, Pair, WIDTH, attention, device, normal};
use serde::Serialize;

use crate::ROUNDS;
use crate::turn::{Turn, same, turn};

/// What one side of a pair costs.
#[derive(Clone, Serialize)]
pub(crate) struct Side {
    /// Median and quartiles, in milliseconds.
    pub(crate) forward_ms: [f64; 3],
    pub(crate) backward_ms: [f64; 3],
    /// See [`Turn`], of the turn that was compared.
    pub(crate) kept_bytes: u64,
    pub(crate) peak_bytes: u64,
}

#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) operation: String,
    /// How often a GPT layer runs it; nothing for what is outside layers, or a product.
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

pub(crate) fn compare(pair: Pair, in_layer: f64) -> Row {
    let input = normal(pair.shape);
    let out = (pair.ours)(input.clone().detach()).dims();
    let factor = normal(out);
    let functions = [&pair.ours, &pair.burns];
    let first = functions.map(|f| turn(f, &pair.parameters, &input, &factor));
    if !pair.random {
        same(&pair.name, &first[0].1, &first[1].1);
    }
    let [ours, burns] = first.map(|(turn, _)| turn);
    let mut times = [const { Vec::new() }; 2];
    for round in 0..ROUNDS {
        for offset in 0..2 {
            let side = (round + offset) % 2;
            let (time, _) = turn(functions[side], &pair.parameters, &input, &factor);
            times[side].push(time);
        }
    }
    let ratio = |of: fn(&Turn) -> Duration| {
        let ratios: Vec<f64> = times[0]
            .iter()
            .zip(&times[1])
            .map(|(ours, burns)| of(burns).as_secs_f64() / of(ours).as_secs_f64())
            .collect();
        [0.5, 0.25, 0.75].map(|q| quantile(&ratios, q))
    };
    let side = |first: &Turn, turns: &[Turn]| {
        let of =
            |part: fn(&Turn) -> Duration| spread_ms(&turns.iter().map(part).collect::<Vec<_>>());
        Side {
            forward_ms: of(|turn| turn.forward),
            backward_ms: of(|turn| turn.backward),
            kept_bytes: first.kept,
            peak_bytes: first.peak,
        }
    };
    Row {
        forward_speedup: ratio(|turn| turn.forward),
        backward_speedup: ratio(|turn| turn.backward),
        ours: side(&ours, &times[0]),
        burns: side(&burns, &times[1]),
        operation: pair.name,
        in_layer,
    }
}

/// Burn's time for what a layer runs over ours: forward, backward and both.
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
    let pair = attention(seq, 0.0);
    let input = normal(pair.shape);
    let factor = Tensor::ones([BATCH, seq, WIDTH], &device());
    let [ours, burns] =
        [&pair.ours, &pair.burns].map(|f| turn(f, &pair.parameters, &input, &factor).0);
    Growth {
        seq,
        ours_kept_bytes: ours.kept,
        burns_kept_bytes: burns.kept,
        ours_peak_bytes: ours.peak,
        burns_peak_bytes: burns.peak,
    }
}
