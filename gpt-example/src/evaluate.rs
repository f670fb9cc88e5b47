//! `gpt eval`: how well a trained model predicts a text.

use burn::prelude::*;
use lynx_burn::{TrainError, Trainer};

use crate::cli::EvalArgs;
use crate::data::{Corpus, Text, micro_batches};
use crate::error::RunError;
use crate::model::Gpt;
use crate::progress::say;
use crate::saved;

/// Predicts every token of the text but the first, each once, and says how surprising they were.
///
/// The text is cut into windows as long as the model's context. A token is predicted from those before
/// it in its window, so the first ones of a window have little to go by.
///
/// # Errors
///
/// If there is no such model or no text.
pub fn run(args: &EvalArgs) -> Result<(), RunError> {
    let device = args.device.open()?;
    let (mut trainer, remembered) = saved::model(&args.run, &device)?;
    let context = remembered.model.context;
    let tokenizer = remembered.tokenizer(&args.run)?;
    let text = match &args.data {
        Some(path) => Text::read(path, &tokenizer)?,
        None => {
            let data = remembered.options.output.data.as_deref();
            Corpus::load(data, context, &tokenizer)?.validation
        }
    };
    let loss = mean_loss(&mut trainer, &text.tokens, context, args.batch, &device)?;
    let (unit, count) = (tokenizer.unit(), text.tokens.len());
    let tokens = match tokenizer.json() {
        None => String::new(),
        Some(_) => format!(", {count} {unit}s"),
    };
    say(format_args!(
        "text        {}: {} bytes{tokens}, {} of them predicted",
        text.name,
        text.bytes,
        count - 1
    ));
    say(format_args!("loss        {loss:.4} nats a {unit}"));
    say(format_args!("perplexity  {:.4} a {unit}", loss.exp()));
    say(format_args!(
        "bits        {:.4} a byte",
        text.bits_per_byte(loss)
    ));
    Ok(())
}

/// The mean over all tokens but the first. The text has two at least.
fn mean_loss<T: Copy + Into<u32>>(
    trainer: &mut Trainer<Gpt>,
    text: &[T],
    context: usize,
    batch: usize,
    device: &Device,
) -> Result<f64, TrainError> {
    let predicted = text.len() - 1;
    let windows: Vec<usize> = (0..predicted / context)
        .map(|index| index * context)
        .collect();
    let rest = predicted % context;
    let mut total = 0.0;
    let mut add = |windows: &[usize], length: usize| {
        let part = micro_batches(text, windows, length, 1, (device, device));
        total += trainer.evaluate(part)? * (windows.len() * length) as f64;
        Ok::<(), TrainError>(())
    };
    for windows in windows.chunks(batch) {
        add(windows, context)?;
    }
    if rest > 0 {
        add(&[predicted - rest], rest)?;
    }
    Ok(total / predicted as f64)
}

#[cfg(test)]
mod tests {
    use burn::optim::SgdConfig;
    use lynx_burn::TrainerBuilder;

    use super::*;
    use crate::chain::Activations;
    use crate::config::GptConfig;

    /// Every byte by itself: what the model says after the bytes before it in its window.
    fn byte_by_byte(trainer: &mut Trainer<Gpt>, text: &[u8], context: usize) -> f64 {
        let device = Device::default();
        let surprises = (1..text.len()).map(|place| {
            let begin = (place - 1) / context * context;
            let seen: Vec<i32> = text[begin..place].iter().map(|&byte| byte.into()).collect();
            let count = seen.len();
            let tokens = Tensor::from_data(TensorData::new(seen, [1, count]), &device);
            let output = trainer
                .predict(Activations::Tokens(tokens))
                .expect("scores");
            let Activations::Logits(logits) = output else {
                panic!("no scores: {output:?}");
            };
            let last = logits.slice_dim(1, count - 1..count);
            let scores: Vec<f64> = last.into_data().iter().collect();
            let all: f64 = scores.iter().map(|score| score.exp()).sum();
            all.ln() - scores[usize::from(text[place])]
        });
        let surprises: Vec<f64> = surprises.collect();
        surprises.iter().sum::<f64>() / surprises.len() as f64
    }

    #[test]
    fn the_mean_loss_is_that_of_every_byte_but_the_first_by_itself() {
        let config = GptConfig {
            layers: 1,
            d_model: 16,
            heads: 2,
            context: 5,
            vocabulary: 256,
            dropout: 0.3,
            ..GptConfig::NANO
        };
        let device = Device::default();
        let model = Gpt::new(&config, 4, &device.clone().autodiff()).expect("valid");
        let mut trainer = TrainerBuilder::new()
            .train(model, SgdConfig::new().init())
            .expect("it fits");
        let text: Vec<u8> = (0..28u32).map(|i| (i * i * 37 % 251) as u8).collect();
        // Shorter than a window, whole windows, and a rest.
        for length in [2, 5, 6, 11, 28] {
            let text = &text[..length];
            let expected = byte_by_byte(&mut trainer, text, config.context);
            for batch in [1, 2, 16] {
                let loss = mean_loss(&mut trainer, text, config.context, batch, &device);
                let loss = loss.expect("a loss");
                assert!(
                    (loss - expected).abs() < 1e-5,
                    "{length}: {loss} {expected}"
                );
            }
        }
    }
}
