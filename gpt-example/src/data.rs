//! The corpus: where the text comes from, its split, and its batches.

mod text;

use std::io;
use std::path::{Path, PathBuf};

use burn::prelude::*;
use lynx_burn::MicroBatch;
use serde::{Deserialize, Serialize};

pub use text::Text;
pub(crate) use text::text;

use crate::chain::Activations;
use crate::model::Gpt;
use crate::random::{self, Purpose};
use crate::tokenizer::{Tokenizer, TokenizerError};

/// The tokens of a text, cut into the part that is learnt and the part that is not.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Where it came from, for people.
    pub name: String,
    /// The first nine tenths.
    pub train: Vec<u32>,
    /// The rest, as a text of its own.
    pub validation: Text,
    /// How they were made.
    tokenizer: Tokenizer,
    mark: Mark,
}

/// What tells one text from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Where it came from, for people.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// A checksum of all of it.
    pub crc32: u32,
}

/// A text that cannot be learnt from.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A folder without text.
    #[error("{} holds no file that ends in .txt, .md or .rs", .0.display())]
    NoFiles(PathBuf),
    /// Nothing to learn.
    #[error("{0} is empty")]
    Empty(String),
    /// Nothing to predict.
    #[error("{name} has one {unit}, and the first one of a text cannot be predicted")]
    One {
        /// The text.
        name: String,
        /// What it has one of.
        unit: &'static str,
    },
    /// It does not become tokens.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// One of the two parts does not hold one window.
    #[error(
        "{name} has {tokens} {unit}s, too few for a context of {context}: the last tenth must hold \
         {context} + 1, so at least {needed} are needed"
    )]
    Short {
        /// The text.
        name: String,
        /// Its length.
        tokens: usize,
        /// What that counts.
        unit: &'static str,
        /// The context.
        context: usize,
        /// The shortest text that will do.
        needed: usize,
    },
}

impl Corpus {
    /// Reads a file, or all text files directly in a folder, or, without a path, takes the text
    /// that comes with the program: the first book of Cicero's *De finibus*.
    ///
    /// # Errors
    ///
    /// If there is no text, or not enough for windows of `context` tokens.
    pub fn load(
        path: Option<&Path>,
        context: usize,
        tokenizer: &Tokenizer,
    ) -> Result<Self, DataError> {
        let (name, text) = text(path)?;
        Self::split(name, &text, context, tokenizer)
    }

    /// What tells it from other texts.
    pub fn mark(&self) -> Mark {
        self.mark.clone()
    }

    /// Keeps the last tenth for validation.
    ///
    /// # Errors
    ///
    /// If a part does not hold a window of `context` tokens and the one after it, or the tokenizer
    /// cannot write its tokens.
    pub fn split(
        name: String,
        text: &[u8],
        context: usize,
        tokenizer: &Tokenizer,
    ) -> Result<Self, DataError> {
        if text.is_empty() {
            return Err(DataError::Empty(name));
        }
        let mut train = tokenizer.encode(text, &name)?;
        let validation = train.len() / 10;
        if validation <= context {
            return Err(DataError::Short {
                name,
                tokens: train.len(),
                unit: tokenizer.unit(),
                context,
                needed: 10 * (context + 1),
            });
        }
        let validation = train.split_off(train.len() - validation);
        let bytes = tokenizer.decode(&validation)?.len();
        let held_out = format!("the last tenth of {name}");
        let validation = Text::new(held_out, validation, bytes, tokenizer)?;
        let mark = Mark {
            name: name.clone(),
            bytes: text.len() as u64,
            crc32: crc32fast::hash(text),
        };
        Ok(Self {
            name,
            train,
            validation,
            tokenizer: tokenizer.clone(),
            mark,
        })
    }

    /// What its tokens are, for people.
    pub fn unit(&self) -> &'static str {
        self.tokenizer.unit()
    }

    /// Nats a token of the validation text under the training text's counts: what a model reaches
    /// that knows how often each token occurs and nothing else.
    pub fn unigram_entropy(&self) -> f64 {
        // One is added to each count, so that a token never seen is not infinitely surprising.
        let mut counts = vec![1u64; self.tokenizer.vocabulary()];
        for &token in &self.train {
            counts[token as usize] += 1;
        }
        let total = counts.iter().sum::<u64>() as f64;
        let surprise = |token: &u32| -(counts[*token as usize] as f64 / total).ln();
        let tokens = &self.validation.tokens;
        tokens.iter().map(surprise).sum::<f64>() / tokens.len() as f64
    }

    /// Where the windows of a training step begin: at random, the same for every number of stages
    /// and micro-batches.
    pub fn train_windows(&self, context: usize, batch: usize, seed: u64, step: u64) -> Vec<usize> {
        let starts = self.train.len() - context;
        (0..batch as u32)
            .map(|row| random::below(starts, seed, Purpose::Batch, step, row))
            .collect()
    }

    /// Where `count` windows begin that are spread evenly over the validation text.
    pub fn validation_windows(&self, context: usize, count: usize) -> Vec<usize> {
        let last = self.validation.tokens.len() - context - 1;
        (0..count)
            .map(|row| last * row / (count - 1).max(1))
            .collect()
    }
}

/// Deals windows of `text`, tokens or bytes, to micro-batches that differ by one window at most.
///
/// The first device receives the tokens, the last one those that follow them.
pub fn micro_batches<T: Copy + Into<u32>>(
    text: &[T],
    windows: &[usize],
    context: usize,
    parts: usize,
    (first, last): (&Device, &Device),
) -> Vec<MicroBatch<Gpt>> {
    let parts = parts.clamp(1, windows.len().max(1));
    let tokens = |windows: &[usize], shift: usize, device: &Device| {
        let ids: Vec<i32> = windows
            .iter()
            .flat_map(|&start| &text[start + shift..start + shift + context])
            // No vocabulary has more than 2^16.
            .map(|&token| token.into() as i32)
            .collect();
        Tensor::<2, Int>::from_data(TensorData::new(ids, [windows.len(), context]), device)
    };
    (0..parts)
        .map(|part| {
            let bound =
                |part: usize| part * (windows.len() / parts) + part.min(windows.len() % parts);
            let windows = &windows[bound(part)..bound(part + 1)];
            MicroBatch {
                input: Activations::Tokens(tokens(windows, 0, first)),
                target: tokens(windows, 1, last),
                weight: windows.len() * context,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
