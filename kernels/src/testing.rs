//! What the kernels' tests share.

use crate::random::{DropoutMask, KeepProbability, StreamKey, fill_normal};

/// A stream for tests.
pub(crate) fn key(seed: u64) -> StreamKey {
    StreamKey {
        seed,
        step: 1,
        micro_batch: 2,
        segment: 3,
        site: 4,
    }
}

/// A mask that drops so many.
pub(crate) fn mask(seed: u64, drop: f64) -> DropoutMask {
    DropoutMask::new(key(seed), KeepProbability::from_drop(drop).expect("valid"))
}

/// The whole mask, as references take it.
pub(crate) fn mask_values(seed: u64, drop: f64, n: usize) -> Vec<f64> {
    let mut values = vec![0.0; n];
    let keep = KeepProbability::from_drop(drop).expect("valid");
    crate::random::fill_dropout_mask(key(seed), keep, &mut values);
    wide(&values)
}

/// Normally distributed values.
pub(crate) fn normal(seed: u64, deviation: f64, n: usize) -> Vec<f32> {
    let mut values = vec![0.0; n];
    fill_normal(key(seed), deviation, &mut values);
    values
}

/// The same values in double precision.
pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// Asserts that every element is within `tolerance` of the expected one, in units of the largest
/// expected magnitude.
pub(crate) fn assert_close(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-30f64, |m, v| m.max(v.abs()));
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(f) - e).abs() / scale;
        assert!(
            error <= tolerance,
            "{what}[{i}]: {f} for {e}, off by {error} of {scale}"
        );
    }
}

/// Asserts that two buffers have the same bits.
pub(crate) fn assert_same_bits(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "{what}[{i}]: {a} and {b}");
    }
}

/// Runs on so many threads.
pub(crate) fn on_threads<R: Send>(threads: usize, body: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("a pool")
        .install(body)
}

/// The directional derivative of `f` at `x` along `direction`, by central differences.
pub(crate) fn slope(f: impl Fn(&[f64]) -> f64, x: &[f64], direction: &[f64]) -> f64 {
    let h = 1e-5;
    let moved = |by: f64| {
        let x: Vec<f64> = x.iter().zip(direction).map(|(x, d)| x + by * d).collect();
        f(&x)
    };
    (moved(h) - moved(-h)) / (2.0 * h)
}

/// The sum of products.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
