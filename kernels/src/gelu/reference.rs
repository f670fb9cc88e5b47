//! GELU in `f64`.

use std::f64::consts::{FRAC_1_SQRT_2, PI, TAU};

use super::Form;

/// `gelu(x)`.
#[must_use]
pub fn forward(form: Form, x: f64) -> f64 {
    match form {
        Form::Erf => x * normal_cdf(x),
        Form::Tanh => 0.5 * x * (1.0 + inner(x).tanh()),
    }
}

/// The derivative of `gelu` at `x`.
#[must_use]
pub fn derivative(form: Form, x: f64) -> f64 {
    match form {
        Form::Erf => normal_cdf(x) + x * (-0.5 * x * x).exp() / TAU.sqrt(),
        Form::Tanh => {
            let tanh = inner(x).tanh();
            let slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044_715 * x * x);
            0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope
        }
    }
}

fn inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))
}

/// The standard normal distribution function, to about 14 digits.
#[must_use]
pub fn normal_cdf(x: f64) -> f64 {
    let z = x.abs() * FRAC_1_SQRT_2;
    let tail = 0.5 * complementary_error_function(z);
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// `erfc(z)` for `z >= 0`: the Maclaurin series of `erf` where it converges fast, and Laplace's
/// continued fraction, evaluated from far inside, where the series would cancel.
fn complementary_error_function(z: f64) -> f64 {
    if z < 2.0 {
        let (mut term, mut sum) = (z, z);
        for n in 1..80 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        1.0 - sum * 2.0 / PI.sqrt()
    } else {
        let mut fraction = z;
        for k in (1..120).rev() {
            fraction = z + 0.5 * f64::from(k) / fraction;
        }
        (-z * z).exp() / (PI.sqrt() * fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of tables: Abramowitz and Stegun, 26.1 and 7.1.
    #[test]
    fn tabulated_values_come_out() {
        for (x, expected) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (2.0, 0.977_249_868_051_821),
            (3.0, 0.998_650_101_968_370),
            (-4.0, 3.167_124_183_312e-5),
        ] {
            assert!((normal_cdf(x) / expected - 1.0).abs() < 1e-11, "{x}");
        }
    }

    #[test]
    fn the_derivative_is_the_limit_of_differences() {
        for form in [Form::Erf, Form::Tanh] {
            for i in -60..=60 {
                let x = f64::from(i) / 10.0;
                let h = 1e-5;
                let difference = (forward(form, x + h) - forward(form, x - h)) / (2.0 * h);
                assert!(
                    (difference - derivative(form, x)).abs() < 1e-8,
                    "{form:?} {x}"
                );
            }
        }
    }
}
