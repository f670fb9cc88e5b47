//! How far a kernel may be from its reference, and why.
//!
//! The references compute in `f64` from the numbers that the device was given, so two things part
//! them: the last rounding to the elements' type, at most [`unit_roundoff`] of the result; and
//! rounding inside, in `f32`, at most `ulps` units of 2^-24 of the largest term that was added or
//! multiplied on the way (`scale`, which each reference reports).
//!
//! | quantity | ulps | reason |
//! | --- | --- | --- |
//! | dropout + residual (+ bias) | 4 | at most four operations |
//! | sums over rows (bias, gamma, beta) | 8 + rows | one rounding a row, the terms' own before that |
//! | layer norm, mean | 16 | a tree of sums over partial sums: log2 of the width, and its division |
//! | layer norm, rstd | 32 | as the mean, squared deviations double the error, a root halves it |
//! | layer norm, output | 64 | errors of mean and rstd, times gamma |
//! | layer norm, input's gradient | 128 | two sums of products of such numbers |
//! | gelu | 64 | the fit of erfc is good to 1.2e-7, two units; devices' exp to 3 + 2 abs(x) of them (WGSL), and the exponent reaches 13 where the result still counts |
//! | gelu's slope | 128 | as gelu, twice |
//! | cross-entropy, loss and log-sum-exp | 64 | exp as above, a sum in a tree, one logarithm |
//! | cross-entropy, gradient | 256 | exp(x - l) inherits l's error in proportion to abs(l) |
//! | attention, output and log-sum-exp | 256 | scores are sums over the head's width, exp as above |
//! | attention, gradients | 1024 | products of two such, summed over the sequence |
//!
//! One unit of 2^-24 is 6e-8: the largest factor stands for 6e-5 of the largest term.

use lynx_kernels::cube::cubecl::ir::ElemType;

use crate::harness::{BF16, F16};

/// Half a unit in the last place of one.
fn unit_roundoff(dtype: ElemType) -> f64 {
    let bits = match dtype {
        F16 => 11,
        BF16 => 8,
        _ => 24,
    };
    0.5f64.powi(bits)
}

/// The smallest number that `dtype` spaces its smallest numbers by, halved; devices may flush
/// `f32`s below its smallest normal number to zero.
fn underflow(dtype: ElemType) -> f64 {
    match dtype {
        F16 => 0.5f64.powi(25),
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// Panics at the first number of `found` that is too far from its `expected`.
pub(crate) fn assert_close(
    what: &str,
    dtype: ElemType,
    ulps: f64,
    scale: f64,
    found: &[f64],
    expected: &[f64],
) {
    assert_eq!(found.len(), expected.len(), "{what}: number of elements");
    let inside = ulps * 0.5f64.powi(24) * scale + underflow(dtype);
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        if found == expected || (found.is_nan() && expected.is_nan()) {
            continue;
        }
        let bound = inside + unit_roundoff(dtype) * expected.abs() * 1.01;
        let error = (found - expected).abs();
        assert!(
            error <= bound,
            "{what} of {dtype}, element {index}: {found} instead of {expected}, \
             {error:.3e} apart, {bound:.3e} allowed"
        );
    }
}

/// The largest magnitude among the finite numbers.
pub(crate) fn largest(values: &[f64]) -> f64 {
    values
        .iter()
        .filter(|v| v.is_finite())
        .fold(0.0, |largest, v| largest.max(v.abs()))
}
