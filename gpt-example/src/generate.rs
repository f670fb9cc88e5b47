//! `gpt generate`: a trained model goes on with a text.

use crate::cli::GenerateArgs;
use crate::error::RunError;
use crate::progress::say;
use crate::sample::{Sampling, sample};
use crate::saved;
use crate::tokenizer::printable;

/// Writes what the model makes of the prompt, the prompt first.
///
/// # Errors
///
/// If there is no such model, or an option makes no sense.
pub fn run(args: &GenerateArgs) -> Result<(), RunError> {
    args.check()?;
    let device = args.device.open()?;
    let (mut trainer, remembered) = saved::model(&args.run, &device)?;
    let sampling = Sampling {
        seed: args.seed,
        temperature: args.temperature,
        top_k: args.top_k,
        context: remembered.model.context,
    };
    let prompt = args.prompt.as_deref().unwrap_or_default();
    // A new line is where anything may begin.
    let start = if prompt.is_empty() { "\n" } else { prompt };
    let text = sample(
        &mut trainer,
        start.as_bytes(),
        args.length,
        sampling,
        &device,
    )?;
    let whole = [prompt.as_bytes(), &text].concat();
    say(printable(&whole));
    Ok(())
}
