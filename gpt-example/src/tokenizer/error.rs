//! Why text does not become tokens.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::first_line;

/// A tokenizer that cannot be read, made or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is something else.
    #[error("{} is no tokenizer.json: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        reason: String,
    },
    /// Tokens without a row in the embedding.
    #[error(
        "{tokenizer} has {tokens} tokens, more than the model's vocabulary of {vocabulary}: see \
         --vocabulary and --tokenizer"
    )]
    TooMany {
        /// Where they come from.
        tokenizer: String,
        /// The tokens.
        tokens: usize,
        /// The model's.
        vocabulary: usize,
    },
    /// A text that is no text.
    #[error("{text} is not UTF-8 (see its byte {at}): it can be learnt without --tokenizer only")]
    NotText {
        /// The text's name.
        text: String,
        /// Where that shows.
        at: usize,
    },
    /// The tokenizer does not know what to do with a text.
    #[error("{text} cannot be made into tokens: {reason}")]
    Encode {
        /// The text's name.
        text: String,
        /// What the tokenizer says.
        reason: String,
    },
    /// The tokenizer does not know what to do with its tokens.
    #[error("the tokens cannot be made into text: {0}")]
    Decode(String),
    /// A vocabulary without room for all bytes.
    #[error("a vocabulary of {0} has no room for the 256 bytes that every text is made of")]
    TooFew(usize),
    /// A text from which nothing can be learnt.
    #[error("nothing can be learnt from {text}: {reason}")]
    Learn {
        /// The text's name.
        text: String,
        /// Why.
        reason: String,
    },
}

impl TokenizerError {
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(super) fn foreign<E: Display>(path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |reason| Self::Foreign {
            path,
            reason: first_line(&reason),
        }
    }
}
