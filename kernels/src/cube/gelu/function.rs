//! GELU and its derivative, without cancellation in the tails and without overflow.
//!
//! With `c(x)` the share of `x` that passes, `gelu(x) = x * c(x)`:
//!
//! - erf: `c` is the normal distribution function, `erfc(-x / sqrt 2) / 2`. For negative `x` that
//!   is a small number computed as such, not one minus something close to one.
//! - tanh: `(1 + tanh u) / 2` with `u = sqrt(2 / pi) (x + 0.044715 x^3)` is the logistic function
//!   of `2u`, again small where it should be.

use cubecl::prelude::*;

use super::GeluKind;

const FRAC_1_SQRT_2: f32 = core::f32::consts::FRAC_1_SQRT_2;
/// `1 / sqrt(2 pi)`: the height of the normal density.
const DENSITY: f32 = 0.398_942_3;
/// `2 sqrt(2 / pi)`, because the logistic function wants `2u`.
const TWICE_SLOPE: f32 = 1.595_769;
const CUBIC: f32 = 0.044_715;
/// Beyond this magnitude everything passes or nothing does, in `f32`; its cube is harmless.
const SATURATED: f32 = 30.0;

/// `gelu(x)`.
#[cube]
pub(super) fn gelu(x: f32, #[comptime] kind: GeluKind) -> f32 {
    match kind {
        GeluKind::Erf => x * normal_cdf(x),
        GeluKind::Tanh => x * logistic(tanh_argument(bounded(x))),
    }
}

/// The derivative of [`gelu`].
#[cube]
pub(super) fn gelu_slope(x: f32, #[comptime] kind: GeluKind) -> f32 {
    let x = bounded(x);
    match kind {
        GeluKind::Erf => normal_cdf(x) + x * DENSITY * (x * x * -0.5f32).exp(),
        GeluKind::Tanh => {
            let share = logistic(tanh_argument(x));
            let slope = TWICE_SLOPE * (1.0f32 + 3.0f32 * CUBIC * x * x);
            share + x * share * (1.0f32 - share) * slope
        }
    }
}

/// `x` between the bounds; not-a-number stays what it is.
#[cube]
fn bounded(x: f32) -> f32 {
    let low = select(x < -SATURATED, -SATURATED, x);
    select(low > SATURATED, SATURATED, low)
}

#[cube]
fn tanh_argument(x: f32) -> f32 {
    TWICE_SLOPE * (x + CUBIC * x * x * x)
}

/// `1 / (1 + exp(-x))`.
#[cube]
fn logistic(x: f32) -> f32 {
    1.0f32 / (1.0f32 + (-x).exp())
}

#[cube]
fn normal_cdf(x: f32) -> f32 {
    let tail = normal_tail(x.abs());
    select(x < 0.0f32, tail, 1.0f32 - tail)
}

/// `erfc(x / sqrt 2) / 2` of `x >= 0`, within 1.2e-7 of its *own* size: a Chebyshev fit of erfc's
/// logarithm (Press et al., "Numerical Recipes", section 6.2). The exponent takes `x` itself, since
/// a rounding of `x / sqrt 2` would count as often as the exponent is large.
#[cube]
fn normal_tail(x: f32) -> f32 {
    let t = 1.0f32 / (1.0f32 + 0.5f32 * FRAC_1_SQRT_2 * x);
    let mut fit = fma(t, 0.170_872_77f32, -0.822_152_23f32);
    fit = fma(t, fit, 1.488_515_9f32);
    fit = fma(t, fit, -1.135_204f32);
    fit = fma(t, fit, 0.278_868_07f32);
    fit = fma(t, fit, -0.186_288_06f32);
    fit = fma(t, fit, 0.096_784_18f32);
    fit = fma(t, fit, 0.374_091_96f32);
    fit = fma(t, fit, 1.000_023_7f32);
    fit = fma(t, fit, -1.265_512_2f32);
    0.5f32 * t * fma(x * -0.5f32, x, fit).exp()
}
