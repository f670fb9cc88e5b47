//! Weights of GPT-2 from a file in Hugging Face's names.
//!
//! Their shapes say what model it is, but for two things: how many heads share the width, and which
//! GELU lies between the products of the MLP. Both are in the `config.json` that lies beside such a
//! file; without one the heads must be given, and the GELU is GPT-2's. Everything is checked before
//! anything else is done: a file that was opened has all tensors, in the right shapes, and no others.
//!
//! Layouts need no change: Hugging Face's `Conv1D` and Burn's `Linear` both have weights
//! `[input, output]`, and `c_attn` has queries, keys and values side by side as our `qkv` has.
//!
//! `names` is what is called what, `file` the format, `sizes` what the shapes say,
//! `settings` the `config.json`; `load` gives a stage its parameters.

mod adopt;
mod error;
pub(crate) mod file;
mod load;
pub(crate) mod names;
pub(crate) mod settings;
mod sizes;

use std::path::Path;

use self::file::Tensors;
use self::settings::Settings;
use self::sizes::Sizes;

pub use error::PretrainedError;

/// A file with the weights of a GPT-2.
#[derive(Debug)]
pub struct Pretrained {
    tensors: Tensors,
    sizes: Sizes,
    /// Of the `config.json` beside it, if there is one.
    settings: Option<Settings>,
}

impl Pretrained {
    /// Opens a file and finds that it holds a GPT-2; no weights are kept in memory.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is cut off, or holds something else.
    pub fn open(path: &Path) -> Result<Self, PretrainedError> {
        let tensors = Tensors::open(path)?;
        let sizes = Sizes::of(&tensors)?;
        let settings = Settings::beside(path)?;
        if let Some(settings) = &settings {
            settings.check(&sizes)?;
        }
        let pretrained = Self {
            tensors,
            sizes,
            settings,
        };
        pretrained.check_head()?;
        Ok(pretrained)
    }

    /// A head in the file must be the embedding once more.
    fn check_head(&self) -> Result<(), PretrainedError> {
        let has_head = self.tensors.names().any(|name| name == names::HEAD);
        if has_head && !self.tensors.equal(names::HEAD, names::EMBEDDING)? {
            return Err(PretrainedError::Untied(self.tensors.path().to_owned()));
        }
        Ok(())
    }
}
