//! Text from a trained model, one token at a time.
//!
//! Each token is a prediction of the whole pipeline over the text so far. Keys and values are not
//! kept between tokens: this is a training example, and the shortest way to a few words.

use burn::prelude::*;
use lynx_burn::{TrainError, Trainer};

use crate::chain::Activations;
use crate::model::Gpt;
use crate::random::{self, Purpose};

/// How to choose among the tokens.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Seed of the choices.
    pub seed: u64,
    /// 0 takes the likeliest token, 1 the model's own distribution.
    pub temperature: f64,
    /// Takes one of so many likeliest tokens.
    pub top_k: Option<usize>,
    /// The most tokens the model looks at.
    pub context: usize,
    /// The tokens to choose among: the first so many.
    pub vocabulary: usize,
}

/// Continues `prompt`, which must not be empty, by `count` tokens.
///
/// # Errors
///
/// If a stage fails.
pub fn sample(
    trainer: &mut Trainer<Gpt>,
    prompt: &[u32],
    count: usize,
    sampling: Sampling,
    device: &Device,
) -> Result<Vec<u32>, TrainError> {
    let mut text = prompt.to_vec();
    for index in 0..count as u64 {
        let seen = &text[text.len().saturating_sub(sampling.context)..];
        let ids: Vec<i32> = seen.iter().map(|&token| token as i32).collect();
        let tokens = Tensor::from_data(TensorData::new(ids, [1, seen.len()]), device);
        let output = trainer.predict(Activations::Tokens(tokens))?;
        let Activations::Logits(logits) = output else {
            unreachable!("the chain ends with logits, not {output:?}");
        };
        let last = logits.slice_dim(1, seen.len() - 1..seen.len());
        let mut scores: Vec<f64> = last.into_data().iter().collect();
        scores.truncate(sampling.vocabulary);
        let chance = random::unit(sampling.seed, Purpose::Text, index, 0);
        let scores = likeliest(scores, sampling.top_k);
        text.push(choose(&scores, sampling.temperature, chance) as u32);
    }
    Ok(text.split_off(prompt.len()))
}

/// The scores with all but the `count` highest at minus infinity. Of equal ones the first stay.
fn likeliest(mut scores: Vec<f64>, count: Option<usize>) -> Vec<f64> {
    let count = count.unwrap_or(scores.len());
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    for &index in order.iter().skip(count) {
        scores[index] = f64::NEG_INFINITY;
    }
    scores
}

/// The index at which the softmax of the scores, added up, exceeds `chance`.
fn choose(scores: &[f64], temperature: f64, chance: f64) -> usize {
    let best = (0..scores.len())
        .max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
        .unwrap_or(0);
    if temperature == 0.0 {
        return best;
    }
    let weights: Vec<f64> = scores
        .iter()
        .map(|score| ((score - scores[best]) / temperature).exp())
        .collect();
    let mut left = chance * weights.iter().sum::<f64>();
    weights
        .iter()
        .position(|weight| {
            left -= weight;
            left < 0.0
        })
        // Rounding may leave a trace after the last one.
        .unwrap_or(best)
}

#[cfg(test)]
mod tests {
    use super::{choose, likeliest};

    #[test]
    fn temperature_zero_takes_the_likeliest() {
        assert_eq!(choose(&[0.0, 3.0, 1.0], 0.0, 0.999), 1);
    }

    #[test]
    fn choices_follow_the_softmax() {
        // 1/4, 2/4, 1/4.
        let scores = [0.0, 2f64.ln(), 0.0];
        let chosen: Vec<usize> = [0.0, 0.2, 0.3, 0.7, 0.8, 0.999]
            .map(|chance| choose(&scores, 1.0, chance))
            .to_vec();
        assert_eq!(chosen, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn only_the_likeliest_are_chosen() {
        let all = vec![0.0, 2f64.ln(), 0.0, 2f64.ln()];
        assert_eq!(likeliest(all.clone(), None), all);
        let two = likeliest(all.clone(), Some(2));
        let chosen: Vec<usize> = [0.0, 0.49, 0.51, 0.999]
            .map(|chance| choose(&two, 1.0, chance))
            .to_vec();
        assert_eq!(chosen, [1, 1, 3, 3]);
        assert_eq!(choose(&likeliest(all, Some(1)), 5.0, 0.999), 1);
    }

    #[test]
    fn a_low_temperature_sharpens() {
        assert_eq!(choose(&[0.0, 1.0], 0.01, 0.001), 1);
    }
}
