//! Text as tokens: every byte is one, or those of a `tokenizer.json`.
//!
//! Bytes are what is there if nothing is said: any file can be read, nothing has to be trained first,
//! and a loss in nats a token is one in nats a byte, which can be compared with the entropy of the
//! text. A `tokenizer.json` is read, and used, by Hugging Face's `tokenizers` crate; [`learn`] makes
//! one from a text.

mod error;
pub mod learn;
mod pieces;
mod tidy;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use tokenizers::Tokenizer as Learnt;

pub use error::TokenizerError;

/// Number of different tokens where every byte is one.
pub const VOCABULARY: usize = 256;

/// How text becomes tokens, and tokens text.
#[derive(Clone, Debug, Default)]
pub struct Tokenizer(Option<Arc<FromFile>>);

#[derive(Debug)]
struct FromFile {
    /// The file's text, to be kept as it was.
    json: String,
    tokenizer: Learnt,
    /// One more than the highest number of a token: where numbers are left out, more than there are
    /// tokens.
    vocabulary: usize,
    /// Whether a long text may be read in pieces.
    in_pieces: bool,
}

impl Tokenizer {
    /// Every byte is a token.
    #[must_use]
    pub fn bytes() -> Self {
        Self(None)
    }

    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Self, TokenizerError> {
        let failed = TokenizerError::read(path);
        let json = fs::read(path).map_err(failed)?;
        let json =
            String::from_utf8(json).map_err(|_| TokenizerError::foreign(path)("no UTF-8"))?;
        Self::from_json(json, path)
    }

    /// The tokenizer of a file's text.
    ///
    /// What the file says of padding, of cutting texts that are too long, and of dropout is left out.
    ///
    /// # Errors
    ///
    /// If it is something else; `path` is named then.
    pub fn from_json(json: String, path: &Path) -> Result<Self, TokenizerError> {
        let read = tidy::tidied(&json).and_then(|tidy| {
            // The crate may trust what it reads in more places than are known here.
            let read = std::panic::catch_unwind(|| tidy.parse::<Learnt>());
            let read = read.map_err(|_| "its parts contradict each other".to_owned())?;
            read.map_err(|error| error.to_string())
        });
        let tokenizer = read.map_err(TokenizerError::foreign(path))?;
        let highest = tokenizer.get_vocab(true).into_values().max();
        let highest = highest.ok_or_else(|| TokenizerError::foreign(path)("it has no token"))?;
        let vocabulary = (highest as usize).saturating_add(1);
        Ok(Self(Some(Arc::new(FromFile {
            json,
            in_pieces: pieces::exact(&tokenizer),
            tokenizer,
            vocabulary,
        }))))
    }

    /// The file's text, if there is a file.
    #[must_use]
    pub fn json(&self) -> Option<&str> {
        self.0.as_deref().map(|file| file.json.as_str())
    }

    /// How many numbers tokens may have.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.0.as_ref().map_or(VOCABULARY, |file| file.vocabulary)
    }

    /// What a token is, for people.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        match self.0 {
            None => "byte",
            Some(_) => "token",
        }
    }

    /// The number of a token that means something to it alone, `<|endoftext|>` say.
    #[must_use]
    pub fn special(&self, token: &str) -> Option<u32> {
        self.0.as_ref()?.tokenizer.token_to_id(token)
    }

    /// Where anything may begin, for those who have no text: behind a new line.
    #[must_use]
    pub fn beginning(&self) -> Vec<u32> {
        let mut tokens = self.encode(b"\n", "a new line").unwrap_or_default();
        if tokens.is_empty() {
            // It knows no new line. Any token will do.
            tokens.push(0);
        }
        tokens
    }

    /// The tokens of a text; `name` is the text's, for errors.
    ///
    /// A long text is read on all cores where the tokenizer is of GPT-2's kind: byte level, with no
    /// space put first and no normalizer. Under any other it is read as one, in more time and memory.
    ///
    /// # Errors
    ///
    /// If the text is not UTF-8, which only bytes need not be, or the tokenizer knows no way.
    pub fn encode(&self, text: &[u8], name: &str) -> Result<Vec<u32>, TokenizerError> {
        let Some(file) = &self.0 else {
            return Ok(text.iter().map(|&byte| byte.into()).collect());
        };
        let text = utf8(text, name)?;
        let encode = |piece: &str| {
            let tokens = file.tokenizer.encode_fast(piece, false);
            tokens.map(|tokens| tokens.get_ids().to_vec())
        };
        let pieces = match file.in_pieces {
            true => pieces::cut(text).collect(),
            false => vec![text],
        };
        let tokens: Result<Vec<Vec<u32>>, _> = pieces.into_par_iter().map(encode).collect();
        let tokens = tokens.map_err(|error| TokenizerError::Encode {
            text: name.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(tokens.concat())
    }

    /// The text of tokens. Numbers without a token are left out.
    ///
    /// # Errors
    ///
    /// If the tokenizer knows no way.
    pub fn decode(&self, tokens: &[u32]) -> Result<Vec<u8>, TokenizerError> {
        let Some(file) = &self.0 else {
            return Ok(tokens.iter().map(|&token| token as u8).collect());
        };
        let text = file.tokenizer.decode(tokens, false);
        text.map(String::into_bytes)
            .map_err(|error| TokenizerError::Decode(error.to_string()))
    }
}

/// A text that tokens are made of.
fn utf8<'a>(text: &'a [u8], name: &str) -> Result<&'a str, TokenizerError> {
    std::str::from_utf8(text).map_err(|error| TokenizerError::NotText {
        text: name.to_owned(),
        at: error.valid_up_to(),
    })
}

/// A model's output for reading: invalid UTF-8 and control characters become `\u{FFFD}`.
///
/// A sample may end in the middle of a character, and an untrained model writes anything.
pub fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|char| match char {
            '\n' | '\t' => char,
            char if char.is_control() => char::REPLACEMENT_CHARACTER,
            char => char,
        })
        .collect()
}

#[cfg(test)]
mod tests;
