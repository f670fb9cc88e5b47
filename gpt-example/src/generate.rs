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
    let tokenizer = remembered.tokenizer(&args.run)?;
    let sampling = Sampling {
        seed: args.seed,
        temperature: args.temperature,
        top_k: args.top_k,
        context: remembered.model.context,
        vocabulary: tokenizer.vocabulary(),
    };
    let prompt = args.prompt.as_deref().unwrap_or_default();
    let mut tokens = tokenizer.encode(prompt.as_bytes(), "the prompt")?;
    let begin = match tokens.is_empty() {
        true => tokenizer.beginning(),
        false => tokens.clone(),
    };
    tokens.extend(sample(
        &mut trainer,
        &begin,
        args.length,
        sampling,
        &device,
    )?);
    say(printable(&tokenizer.decode(&tokens)?));
    Ok(())
}
