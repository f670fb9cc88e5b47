//! Kernels by themselves, without tensors: recompute beside forward.

use std::hint::black_box;
use std::time::Instant;

use lynx_benches::rounds::{quantile, spread_ms};
use lynx_benches::twins::slices::{Pass, Twin};
use serde::Serialize;

use crate::ROUNDS;

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

/// Forward and recompute of a kernel in turns, after they were found to give the same bits.
pub(crate) fn kernel(name: &str, mut twin: impl Twin) -> Kernel {
    let mut bits = |pass| {
        twin.output().fill(f32::NAN);
        twin.run(pass);
        twin.output().iter().map(|y| y.to_bits()).collect()
    };
    let [forward, again]: [Vec<u32>; 2] = [Pass::Forward, Pass::Recompute].map(&mut bits);
    assert!(forward == again, "{name}: other bits");
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..4 * ROUNDS {
        for (times, pass) in times.iter_mut().zip([Pass::Forward, Pass::Recompute]) {
            let begin = Instant::now();
            twin.run(pass);
            black_box(twin.output());
            times.push(begin.elapsed());
        }
    }
    let shares: Vec<f64> = times[0]
        .iter()
        .zip(&times[1])
        .map(|(forward, recompute)| recompute.as_secs_f64() / forward.as_secs_f64())
        .collect();
    let (cost, forward_ms) = (twin.cost(Pass::Forward), spread_ms(&times[0]));
    Kernel {
        kernel: name.to_owned(),
        forward_ms,
        recompute_ms: spread_ms(&times[1]),
        recompute_share: [0.5, 0.25, 0.75].map(|q| quantile(&shares, q)),
        forward_gb_per_s: cost.bytes() as f64 / forward_ms[0] / 1e6,
        forward_gflop_per_s: cost.flops as f64 / forward_ms[0] / 1e6,
    }
}
