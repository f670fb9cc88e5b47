//! The normal distribution, which the exact GELU is made of.

use super::exp;

/// Beyond this many standard deviations the tail is below the smallest normal float.
const FAR: f32 = 13.2;

/// The standard normal distribution function.
#[inline(always)]
pub(crate) fn cdf(x: f32) -> f32 {
    cdf_and_density(x).0
}

/// The standard normal distribution function and its density. Relative error of the first below
/// 1e-6 for `x >= -5` and below 5e-6 for `x >= -13`, where the square of `x` loses bits; absolute
/// error below 3e-7 everywhere. NaN of NaN.
///
/// The upper tail beyond `a` is the density times Mills' ratio, and the ratio is
/// `t (q0 + q1 t + ...)` with `t = 1 / (1 + p a)`: the form of Hastings' approximations, fitted
/// anew for the relative error (1.1e-7 for `a <= 13.5`). The density is what the derivative of
/// GELU needs anyway.
#[inline(always)]
pub(crate) fn cdf_and_density(x: f32) -> (f32, f32) {
    const P: f32 = 0.231_641_9;
    const INVERSE_ROOT_TAU: f32 = 0.398_942_3;
    let a = x.abs();
    let a = if a > FAR { FAR } else { a };
    let density = exp(-0.5 * a * a) * INVERSE_ROOT_TAU;
    let t = 1.0 / P.mul_add(a, 1.0);
    let mut q = -0.177_429_88_f32;
    q = q.mul_add(t, 0.624_743_04);
    q = q.mul_add(t, -0.512_444_26);
    q = q.mul_add(t, 0.571_331_8);
    q = q.mul_add(t, 0.030_220_332);
    q = q.mul_add(t, 0.258_519_86);
    q = q.mul_add(t, 0.226_439_36);
    q = q.mul_add(t, 0.231_933_9);
    let tail = density * (t * q);
    (if x < 0.0 { tail } else { 1.0 - tail }, density)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gelu::reference::normal_cdf;

    #[test]
    fn the_distribution_function_keeps_its_relative_precision_in_the_tail() {
        let (mut near, mut far, mut absolute) = (0.0f64, 0.0f64, 0.0f64);
        for i in 0..=400_000 {
            let x = -13.0 + 26.0 * (i as f32 / 400_000.0);
            let expected = normal_cdf(f64::from(x));
            let error = (f64::from(cdf(x)) - expected).abs();
            absolute = absolute.max(error);
            let relative = error / expected;
            if x >= -5.0 {
                near = near.max(relative);
            }
            far = far.max(relative);
        }
        assert!(near < 1e-6, "{near}");
        assert!(far < 5e-6, "{far}");
        assert!(absolute < 3e-7, "{absolute}");
    }

    #[test]
    fn the_ends_are_zero_and_one_and_nan_stays_nan() {
        assert_eq!(cdf(f32::INFINITY), 1.0);
        assert!(cdf(f32::NEG_INFINITY) < 1e-37);
        assert!((cdf(0.0) - 0.5).abs() < 1e-7);
        assert!(cdf(f32::NAN).is_nan());
    }
}
