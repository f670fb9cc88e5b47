//! Normally distributed values, for initial weights that do not depend on who creates them.

use std::f64::consts::TAU;

use rayon::prelude::*;

use super::{CHUNK, StreamKey};

/// Fills `values` with samples of a normal distribution with mean 0 (Box-Muller on Philox words).
///
/// Element `i` depends on `key` and `i` only, so a parameter gets the same values whichever stage
/// or thread creates it.
pub fn fill_normal(key: StreamKey, standard_deviation: f64, values: &mut [f32]) {
    let stream = key.open();
    values
        .par_chunks_mut(CHUNK)
        .enumerate()
        .for_each(|(chunk, values)| {
            let first_block = (chunk * (CHUNK / 4)) as u64;
            for (block, values) in values.chunks_mut(4).enumerate() {
                let words = stream.block(first_block + block as u64);
                let pairs = [
                    box_muller(words[0], words[1]),
                    box_muller(words[2], words[3]),
                ];
                for (value, normal) in values.iter_mut().zip(pairs.as_flattened()) {
                    *value = (normal * standard_deviation) as f32;
                }
            }
        });
}

/// Two independent standard normal values from two words.
fn box_muller(radius: u32, angle: u32) -> [f64; 2] {
    // The half keeps the logarithm's argument above zero.
    let uniform = |word: u32| (f64::from(word) + 0.5) / (1u64 << 32) as f64;
    let radius = (-2.0 * uniform(radius).ln()).sqrt();
    let (sin, cos) = (TAU * uniform(angle)).sin_cos();
    [radius * cos, radius * sin]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_four_moments_are_those_of_a_normal_distribution() {
        let key = StreamKey {
            seed: 5,
            step: 0,
            micro_batch: 0,
            segment: 0,
            site: 0,
        };
        let n = 1 << 20;
        let mut values = vec![0.0; n];
        fill_normal(key, 2.0, &mut values);
        let moment = |power: i32| {
            values
                .iter()
                .map(|&v| (f64::from(v) / 2.0).powi(power))
                .sum::<f64>()
                / n as f64
        };
        // Six standard errors: var(x^k) = E[x^2k] - E[x^k]^2 of a standard normal.
        for (power, expected, variance) in
            [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)]
        {
            let bound = 6.0 * (f64::sqrt(variance) / (n as f64).sqrt());
            assert!(
                (moment(power) - expected).abs() < bound,
                "moment {power}: {}",
                moment(power)
            );
        }
    }
}
