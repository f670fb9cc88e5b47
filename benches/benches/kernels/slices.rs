//! Kernels by themselves, without tensors.

use std::hint::black_box;
use std::time::Instant;

use lynx_benches::rounds::{quantile, spread_ms};
use lynx_burn::kernels::{Cost, attention, layer_norm};
use serde::Serialize;

use crate::{BATCH, HEADS, ROUNDS, SEQ, WIDTH};

/// A kernel by itself, on slices.
#[derive(Serialize)]
pub(crate) struct Kernel {
    pub(crate) kernel: String,
    pub(crate) forward_ms: [f64; 3],
    pub(crate) recompute_ms: [f64; 3],
    /// Recompute over forward in the same round: median and quartiles.
    pub(crate) recompute_share: [f64; 3],
    pub(crate) forward_gb_per_s: f64,
    pub(crate) forward_gflop_per_s: f64,
}

/// Forward and recompute of a kernel, which were found to be the same, in turns.
fn kernel(
    name: &str,
    cost: Cost,
    mut forward: impl FnMut(),
    mut recompute: impl FnMut(),
) -> Kernel {
    let mut times = [const { Vec::new() }; 2];
    let time = |body: &mut dyn FnMut()| {
        let begin = Instant::now();
        body();
        begin.elapsed()
    };
    forward();
    recompute();
    for _ in 0..4 * ROUNDS {
        times[0].push(time(&mut forward));
        times[1].push(time(&mut recompute));
    }
    let shares: Vec<f64> = times[0]
        .iter()
        .zip(&times[1])
        .map(|(forward, recompute)| recompute.as_secs_f64() / forward.as_secs_f64())
        .collect();
    let forward_ms = spread_ms(&times[0]);
    Kernel {
        kernel: name.to_owned(),
        forward_ms,
        recompute_ms: spread_ms(&times[1]),
        recompute_share: [0.5, 0.25, 0.75].map(|q| quantile(&shares, q)),
        forward_gb_per_s: cost.bytes() as f64 / forward_ms[0] / 1e6,
        forward_gflop_per_s: cost.flops as f64 / forward_ms[0] / 1e6,
    }
}

pub(crate) fn values(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| (i * 31 % 1009) as f32 / 500.0 - 1.0)
        .collect()
}

pub(crate) fn layer_norm_kernel() -> Kernel {
    let shape = layer_norm::LayerNorm::new(BATCH * SEQ, WIDTH, 1e-5).expect("valid");
    let (x, w) = (values(shape.elements()), values(WIDTH));
    let (mut y, mut again) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let (mut mean, mut rstd) = (vec![0.0; shape.rows()], vec![0.0; shape.rows()]);
    layer_norm::forward(shape, &x, &w, Some(&w), &mut y, &mut mean, &mut rstd).expect("fits");
    layer_norm::recompute(shape, &x, &w, Some(&w), &mean, &rstd, &mut again).expect("fits");
    assert!(y == again, "layer norm: other bits");
    let (kept_mean, kept_rstd) = (mean.clone(), rstd.clone());
    kernel(
        "layer norm",
        shape.forward_cost(),
        || {
            let beta = Some(&w[..]);
            layer_norm::forward(shape, &x, &w, beta, &mut y, &mut mean, &mut rstd).expect("fits");
            black_box(&y);
        },
        || {
            let (mean, rstd) = (&kept_mean, &kept_rstd);
            layer_norm::recompute(shape, &x, &w, Some(&w), mean, rstd, &mut again).expect("fits");
            black_box(&again);
        },
    )
}

pub(crate) fn attention_kernel() -> Kernel {
    let shape = attention::Attention::new(BATCH, SEQ, HEADS, WIDTH / HEADS).expect("valid");
    let qkv = values(3 * shape.elements());
    let (mut out, mut again) = (vec![0.0; shape.elements()], vec![0.0; shape.elements()]);
    let mut lse = vec![0.0; shape.queries()];
    attention::forward(shape, &qkv, None, &mut out, &mut lse).expect("fits");
    attention::recompute(shape, &qkv, None, &lse, &mut again).expect("fits");
    assert!(out == again, "attention: other bits");
    let kept = lse.clone();
    kernel(
        "attention",
        shape.forward_cost(),
        || {
            attention::forward(shape, &qkv, None, &mut out, &mut lse).expect("fits");
            black_box(&out);
        },
        || {
            attention::recompute(shape, &qkv, None, &kept, &mut again).expect("fits");
            black_box(&again);
        },
    )
}
