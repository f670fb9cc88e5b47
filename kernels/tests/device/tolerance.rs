//! How far a kernel may be from its reference, and why.
//!
//! The references compute in `f64` from the numbers that the device was given, so two things part
//! them: the last rounding to the elements' type, at most [`unit_roundoff`] of the result; and
//! rounding inside, in `f32`, at most `ulps` units of 2^-24 of the largest term that was added or
//! multiplied on the way (`scale`, which each reference reports).
//!
//! | quantity | ulps | on lavapipe | reason |
//! | --- | --- | --- | --- |
//! | dropout + residual (+ bias) | 4 | 0.5 | at most four operations |
//! | sums over rows (gradients of bias, gamma, beta) | 4 | 0.4 | the scale counts all rows at their largest, roundings are of partial sums |
//! | layer norm: mean, rstd | 4 | 0.4 | trees of sums; the scale knows how much a small deviation amplifies |
//! | layer norm: output, input's gradient | 8 | 0.7 | errors of mean and rstd, once and twice |
//! | gelu and its slope | 32 | 3.2 | the fit of erfc is good to 2; WGSL allows exp an error of 3 + 2 abs(x), and it counts while x is small |
//! | gelu, gradient of the bias | 16 | 0.4 | slopes, summed as above |
//! | cross-entropy: loss, log-sum-exp, gradient | 16 | 2.5 | exp as above, a tree of sums, a logarithm |
//! | attention: output | 8 | 0.8 | a score's error shifts an exponent; the scale counts the score at its largest |
//! | attention: log-sum-exp, gradients | 16 | 2.8 | as the output; products of two such |
//!
//! "On lavapipe" is the worst that a run of the tests showed, in the same units. Other devices have
//! other exponentials and other orders of lanes, so there is room.

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
