//! The corpus: where the text comes from, its split, and its batches.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use burn::prelude::*;
use lynx_burn::MicroBatch;
use serde::{Deserialize, Serialize};

use crate::chain::Activations;
use crate::model::Gpt;
use crate::random::{self, Purpose};
use crate::tokenizer::VOCABULARY;

/// Endings of the files that are read from a folder.
const ENDINGS: [&str; 3] = ["txt", "md", "rs"];

/// A text cut into the part that is learnt and the part that is not.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Where it came from, for people.
    pub name: String,
    /// The first nine tenths.
    pub train: Vec<u8>,
    /// The rest.
    pub validation: Vec<u8>,
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
    #[error("{0} has one byte, and the first one of a text cannot be predicted")]
    OneByte(String),
    /// One of the two parts does not hold one window.
    #[error(
        "{name} has {bytes} bytes, too few for a context of {context}: the last tenth must hold \
         {context} + 1, so at least {needed} are needed"
    )]
    Short {
        /// The text.
        name: String,
        /// Its length.
        bytes: usize,
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
    pub fn load(path: Option<&Path>, context: usize) -> Result<Self, DataError> {
        match path {
            None => {
                let name = "Cicero, De finibus, book 1".to_owned();
                Self::split(name, lipsum::LIBER_PRIMUS.as_bytes(), context)
            }
            Some(path) => {
                let text = text_at(path)?;
                Self::split(path.display().to_string(), &text, context)
            }
        }
    }

    /// Reads a text of which every byte but the first can be predicted, and its name.
    ///
    /// # Errors
    ///
    /// If there are not two bytes.
    pub fn read(path: &Path) -> Result<(String, Vec<u8>), DataError> {
        let (name, text) = (path.display().to_string(), text_at(path)?);
        match text.len() {
            0 => Err(DataError::Empty(name)),
            1 => Err(DataError::OneByte(name)),
            _ => Ok((name, text)),
        }
    }

    /// What tells it from other texts.
    pub fn mark(&self) -> Mark {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.train);
        hasher.update(&self.validation);
        Mark {
            name: self.name.clone(),
            bytes: (self.train.len() + self.validation.len()) as u64,
            crc32: hasher.finalize(),
        }
    }

    /// Keeps the last tenth for validation.
    ///
    /// # Errors
    ///
    /// If a part does not hold a window of `context` tokens and the one after it.
    pub fn split(name: String, text: &[u8], context: usize) -> Result<Self, DataError> {
        if text.is_empty() {
            return Err(DataError::Empty(name));
        }
        let validation = text.len() / 10;
        if validation <= context {
            return Err(DataError::Short {
                name,
                bytes: text.len(),
                context,
                needed: 10 * (context + 1),
            });
        }
        let (train, validation) = text.split_at(text.len() - validation);
        Ok(Self {
            name,
            train: train.to_vec(),
            validation: validation.to_vec(),
        })
    }

    /// Nats a byte of the validation text under the training text's byte counts: what a model
    /// reaches that knows how often each byte occurs and nothing else.
    pub fn unigram_entropy(&self) -> f64 {
        // One is added to each count, so that a byte never seen is not infinitely surprising.
        let mut counts = [1u64; VOCABULARY];
        for &byte in &self.train {
            counts[usize::from(byte)] += 1;
        }
        let total = counts.iter().sum::<u64>() as f64;
        let surprise = |byte: &u8| -(counts[usize::from(*byte)] as f64 / total).ln();
        self.validation.iter().map(surprise).sum::<f64>() / self.validation.len() as f64
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
        let last = self.validation.len() - context - 1;
        (0..count)
            .map(|row| last * row / (count - 1).max(1))
            .collect()
    }
}

/// The text of a file, or of all text files directly in a folder.
fn text_at(path: &Path) -> Result<Vec<u8>, DataError> {
    let read = |path: &Path| {
        fs::read(path).map_err(|source| DataError::Read {
            path: path.to_owned(),
            source,
        })
    };
    if !path.is_dir() {
        return read(path);
    }
    let mut text = Vec::new();
    for file in text_files(path)? {
        text.extend(read(&file)?);
    }
    Ok(text)
}

/// The text files directly in `folder`, sorted, so that every machine reads the same text.
fn text_files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |source| DataError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_text = path
            .extension()
            .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        if is_text && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(DataError::NoFiles(folder.to_owned()));
    }
    files.sort();
    Ok(files)
}

/// Deals windows of `text` to micro-batches that differ by one window at most.
///
/// The first device receives the tokens, the last one those that follow them.
pub fn micro_batches(
    text: &[u8],
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
            .map(|&byte| i32::from(byte))
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
