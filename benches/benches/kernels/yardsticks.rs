//! What the machine can do.

use std::hint::black_box;
use std::time::Instant;

use burn::prelude::*;
use burn::tensor::Distribution;
use lynx_benches::rounds::quantile;
use lynx_benches::twins::values;
use rayon::prelude::*;

use crate::ROUNDS;

/// Bytes read and written a second by a copy of 8 MiB, in rayon's threads, as the kernels run.
pub(crate) fn copy() -> f64 {
    let source = values(2 << 20);
    let mut target = vec![0.0f32; source.len()];
    let times: Vec<f64> = (0..4 * ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            target
                .par_chunks_mut(1 << 14)
                .zip(source.par_chunks(1 << 14))
                .for_each(|(target, source)| target.copy_from_slice(source));
            black_box(&target);
            begin.elapsed().as_secs_f64()
        })
        .collect();
    8.0 * source.len() as f64 / quantile(&times, 0.5) / 1e9
}

/// Burn's product of two matrices of 1024 x 1024.
pub(crate) fn matmul() -> f64 {
    let device = Device::flex();
    let matrix = || Tensor::<2>::random([1024, 1024], Distribution::Default, &device);
    let (a, b) = (matrix(), matrix());
    let times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            black_box(a.clone().matmul(b.clone()));
            begin.elapsed().as_secs_f64()
        })
        .collect();
    2.0 * 1024f64.powi(3) / quantile(&times, 0.5) / 1e9
}
