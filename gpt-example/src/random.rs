//! Chance outside the model: which windows a batch takes, which token is sampled.
//!
//! A number depends on its key alone, so a run is the same however many stages it has, and step
//! 300 can be looked at without the 299 before it.

use lynx_kernels::random::Philox4x32;

/// What a number is drawn for. Purposes never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The windows of a training batch.
    Batch = 0x6261_7463,
    /// Sampling text.
    Text = 0x7465_7874,
}

/// 64 random bits.
fn bits(seed: u64, purpose: Purpose, step: u64, index: u32) -> u64 {
    let key = [seed as u32, (seed >> 32) as u32];
    let counter = [step as u32, (step >> 32) as u32, index, purpose as u32];
    let [low, high, ..] = Philox4x32::new(key).block(counter);
    u64::from(high) << 32 | u64::from(low)
}

/// A number below `bound`, or 0 if that is 0.
pub fn below(bound: usize, seed: u64, purpose: Purpose, step: u64, index: u32) -> usize {
    let wide = u128::from(bits(seed, purpose, step, index)) * bound as u128;
    (wide >> 64) as usize
}

/// A number in `[0, 1)`.
pub fn unit(seed: u64, purpose: Purpose, step: u64, index: u32) -> f64 {
    // A double has 53 bits of precision.
    (bits(seed, purpose, step, index) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_bound_and_reach_both_ends() {
        let drawn: Vec<usize> = (0..1000)
            .map(|step| below(5, 1, Purpose::Batch, step, 0))
            .collect();
        assert!((0..5).all(|value| drawn.contains(&value)));
        assert!(drawn.iter().all(|&value| value < 5));
        assert_eq!(below(0, 1, Purpose::Batch, 0, 0), 0);
    }

    #[test]
    fn units_have_the_mean_of_a_uniform_distribution() {
        let n = 10_000;
        let sum: f64 = (0..n).map(|step| unit(7, Purpose::Text, step, 0)).sum();
        // Six standard errors of 1 / sqrt(12 n).
        let bound = 6.0 / (12.0 * n as f64).sqrt();
        assert!((sum / n as f64 - 0.5).abs() < bound);
    }
}
