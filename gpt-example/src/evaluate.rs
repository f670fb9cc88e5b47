//! `gpt eval`: how well a trained model predicts a text.

use burn::prelude::*;
use lynx_burn::{TrainError, Trainer};

use crate::cli::EvalArgs;
use crate::data::{Corpus, micro_batches};
use crate::error::RunError;
use crate::model::Gpt;
use crate::progress::say;
use crate::saved;

/// Predicts every byte of the text but the first, each once, and says how surprising they were.
///
/// The text is cut into windows as long as the model's context. A byte is predicted from those before
/// it in its window, so the first ones of a window have little to go by.
///
/// # Errors
///
/// If there is no such model or no text.
pub fn run(args: &EvalArgs) -> Result<(), RunError> {
    let device = args.device.open()?;
    let (mut trainer, remembered) = saved::model(&args.run, &device)?;
    let context = remembered.model.context;
    let (name, text) = match &args.data {
        Some(path) => Corpus::read(path)?,
        None => {
            let own = Corpus::load(remembered.options.output.data.as_deref(), context)?;
            (format!("the last tenth of {}", own.name), own.validation)
        }
    };
    let loss = mean_loss(&mut trainer, &text, context, args.batch, &device)?;
    say(format_args!(
        "text        {name}: {} bytes, {} of them predicted",
        text.len(),
        text.len() - 1
    ));
    say(format_args!("loss        {loss:.4} nats a byte"));
    say(format_args!("perplexity  {:.4} a byte", loss.exp()));
    say(format_args!(
        "bits        {:.4} a byte",
        loss / std::f64::consts::LN_2
    ));
    Ok(())
}

/// The mean over all bytes but the first. The text has two at least.
fn mean_loss(
    trainer: &mut Trainer<Gpt>,
    text: &[u8],
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
