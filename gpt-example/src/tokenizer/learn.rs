//! A tokenizer from a text: byte pairs, as GPT-2's.
//!
//! It begins with the 256 bytes, so that any text can be written with it, and joins the pair that
//! occurs most often, again and again. Pairs are joined within words only, which are found as in
//! GPT-2. There are no special tokens: a text means what it says.

use std::collections::HashSet;

use tokenizers::Tokenizer as Learnt;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::{TokenizerError, VOCABULARY, pieces, utf8};
use crate::cli::TokenizerTrainArgs;
use crate::data::{self, DataError};
use crate::error::RunError;
use crate::files;
use crate::progress::say;

/// `gpt tokenizer train`.
///
/// # Errors
///
/// If there is no text, or the file cannot be written.
pub fn run(args: &TokenizerTrainArgs) -> Result<(), RunError> {
    let (name, text) = data::text(args.data.as_deref())?;
    if text.is_empty() {
        return Err(DataError::Empty(name).into());
    }
    let json = learn(&text, &name, args.vocab)?;
    let known = super::Tokenizer::from_json(json, &args.out)?;
    let tokens = known.encode(&text, &name)?.len();
    let json = known.json().unwrap_or_default().as_bytes();
    files::write(&args.out, |out| out.write_all(json))?;
    say(format_args!(
        "text      {name}: {} bytes, {tokens} tokens, {:.2} bytes a token",
        text.len(),
        text.len() as f64 / tokens.max(1) as f64
    ));
    let vocabulary = known.vocabulary();
    let fewer = match vocabulary < args.vocab {
        true => format!(", fewer than {}: no pair occurs twice", args.vocab),
        false => String::new(),
    };
    say(format_args!("tokens    {vocabulary}{fewer}"));
    say(format_args!("written to {}", args.out.display()));
    Ok(())
}

/// Learns so many tokens from a text; the text of a `tokenizer.json`.
///
/// The same text gives the same file. A short text may give fewer tokens.
///
/// # Errors
///
/// If the text is no UTF-8, or the bytes alone are more tokens.
pub fn learn(text: &[u8], name: &str, vocabulary: usize) -> Result<String, TokenizerError> {
    if vocabulary < VOCABULARY {
        return Err(TokenizerError::TooFew(vocabulary));
    }
    let failed = |error: tokenizers::Error| TokenizerError::Learn {
        text: name.to_owned(),
        reason: error.to_string(),
    };
    let alphabet: HashSet<char> = ByteLevel::alphabet().into_iter().collect();
    let trainer = BpeTrainerBuilder::new()
        .vocab_size(vocabulary)
        .initial_alphabet(alphabet)
        .min_frequency(2)
        .show_progress(false)
        .build();
    let mut trainer = TrainerWrapper::BpeTrainer(trainer);
    let mut tokenizer = Learnt::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tokenizer.with_decoder(Some(ByteLevel::new(false, true, true)));
    let text = utf8(text, name)?;
    tokenizer
        .train(&mut trainer, pieces::cut(text))
        .map_err(failed)?;
    let mut json = tokenizer.to_string(true).map_err(failed)?;
    json.push('\n');
    Ok(json)
}
