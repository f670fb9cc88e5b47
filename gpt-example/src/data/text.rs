//! Texts as they are read, and texts to be predicted.

use std::fs;
use std::path::{Path, PathBuf};

use super::DataError;
use crate::tokenizer::Tokenizer;

/// Endings of the files that are read from a folder.
const ENDINGS: [&str; 3] = ["txt", "md", "rs"];

/// A text to be predicted.
#[derive(Clone, Debug)]
pub struct Text {
    /// Where it came from, for people.
    pub name: String,
    /// Its tokens, two at least.
    pub tokens: Vec<u32>,
    /// Its length in bytes.
    pub bytes: usize,
    /// Of these, the bytes behind the first token, which cannot be predicted.
    pub predicted: usize,
}

impl Text {
    /// Reads a text of which every token but the first can be predicted.
    ///
    /// # Errors
    ///
    /// If there are not two tokens.
    pub fn read(path: &Path, tokenizer: &Tokenizer) -> Result<Self, DataError> {
        let (name, text) = text(Some(path))?;
        if text.is_empty() {
            return Err(DataError::Empty(name));
        }
        let tokens = tokenizer.encode(&text, &name)?;
        Self::new(name, tokens, text.len(), tokenizer)
    }

    pub(super) fn new(
        name: String,
        tokens: Vec<u32>,
        bytes: usize,
        tokenizer: &Tokenizer,
    ) -> Result<Self, DataError> {
        let unit = tokenizer.unit();
        match tokens.as_slice() {
            [] => Err(DataError::Empty(name)),
            [_] => Err(DataError::One { name, unit }),
            [first, ..] => {
                let first = tokenizer.decode(&[*first])?.len();
                Ok(Self {
                    name,
                    tokens,
                    bytes,
                    // A token may end in the middle of a character, which then counts as three.
                    predicted: bytes.saturating_sub(first).max(1),
                })
            }
        }
    }

    /// What a mean loss in nats a token is in bits a byte; in proportion to the loss.
    pub fn bits_per_byte(&self, loss: f64) -> f64 {
        let tokens = (self.tokens.len() - 1) as f64;
        loss * tokens / self.predicted as f64 / std::f64::consts::LN_2
    }
}

/// The text of a file, of all text files directly in a folder, or, without a path, the one that
/// comes with the program; and its name.
pub(crate) fn text(path: Option<&Path>) -> Result<(String, Vec<u8>), DataError> {
    match path {
        None => {
            let name = "Cicero, De finibus, book 1".to_owned();
            Ok((name, lipsum::LIBER_PRIMUS.as_bytes().to_vec()))
        }
        Some(path) => Ok((path.display().to_string(), text_at(path)?)),
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
