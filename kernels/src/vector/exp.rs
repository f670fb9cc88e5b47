//! The exponential.

/// Below this the result is zero: a little above the smallest normal number, so that scaling in
/// two steps never meets a subnormal one.
const LOWEST: f32 = -86.6;
/// Above this the result is infinite (the logarithm of the largest float is 88.7228).
const HIGHEST: f32 = 88.722_83;

/// `e^x`. Relative error below 2.4e-7 (two units in the last place) where the result is a normal
/// number above 3e-38; zero below that, infinity above the largest float, NaN of NaN.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`; a polynomial of degree 6 for `e^r` (fitted to a
/// relative error of 2e-9, so what counts is rounding), and `2^n` put into the exponent's bits.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding and subtracting 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts; the first has few enough bits that its product with n is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Comparisons are false for NaN, which therefore passes through the arithmetic.
    let inside = if x < LOWEST { LOWEST } else { x };
    let inside = if inside > HIGHEST { HIGHEST } else { inside };
    let shifted = inside.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_HIGH, inside);
    let r = n.mul_add(-LN_2_LOW, r);
    let mut y = 0.001_383_683_4f32;
    y = y.mul_add(r, 0.008_374_822);
    y = y.mul_add(r, 0.041_668_225);
    y = y.mul_add(r, 0.166_664_2);
    y = y.mul_add(r, 0.499_999_9);
    y = y.mul_add(r, 1.0);
    y = y.mul_add(r, 1.0);
    // n - 1 is at least -126, and 2^(n - 1) is finite where 2^n is not.
    let exponent = shifted.to_bits().wrapping_add(126) << 23;
    let y = y * f32::from_bits(exponent) * 2.0;
    let y = if x < LOWEST { 0.0 } else { y };
    if x > HIGHEST { f32::INFINITY } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_within_two_units_in_the_last_place() {
        let mut worst = 0.0f64;
        for i in 0..=2_000_000 {
            let x = LOWEST + (HIGHEST - LOWEST) * (i as f32 / 2_000_000.0);
            let expected = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) / expected - 1.0).abs());
        }
        assert!(worst < 2.4e-7, "{worst}");
    }

    #[test]
    fn the_ends_are_zero_and_infinity_and_nan_stays_nan() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(-90.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert!(exp(88.7).is_finite());
        assert_eq!(exp(88.73), f32::INFINITY);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
