//! Why there are no weights to begin with.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::first_line;

/// Weights that cannot be begun with.
#[derive(Debug, thiserror::Error)]
pub enum PretrainedError {
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file that is cut off, damaged, or of another format.
    #[error("{} is no whole .safetensors file: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that shows.
        reason: String,
    },
    /// A tensor that every GPT-2 has.
    #[error("{} holds no GPT-2: there is no tensor {name:?}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A tensor that no GPT-2 has.
    #[error("{} holds no GPT-2, or more than that: it has a tensor {name:?}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A tensor of another shape.
    #[error("{}: tensor {name:?} has shape {found:?} where GPT-2 has {wanted}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// What it should be.
        wanted: String,
    },
    /// Numbers of another kind.
    #[error("{}: tensor {name:?} has numbers of type {found}; f32, f16 and bf16 are known", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
    },
    /// A head of its own.
    #[error(
        "{}: \"lm_head.weight\" differs from the embedding, and this model has one matrix for both",
        .0.display()
    )]
    Untied(PathBuf),
    /// A configuration that is none.
    #[error("{} is no configuration of Hugging Face's GPT-2: {reason}", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A GPT-2 that computes something else.
    #[error("{}: {name} is {value}, which this model does not know", path.display())]
    Unknown {
        /// The configuration.
        path: PathBuf,
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// Two files that contradict each other.
    #[error("{}: {name} is {value}, but the weights beside it have {found}", path.display())]
    Contradiction {
        /// The configuration.
        path: PathBuf,
        /// The setting.
        name: &'static str,
        /// Its value.
        value: usize,
        /// What the shapes say.
        found: usize,
    },
    /// An option that contradicts the file.
    #[error("{option} asks for {asked}, but {} has {found}: leave the option out", path.display())]
    Asked {
        /// The option.
        option: String,
        /// Its value.
        asked: String,
        /// The file.
        path: PathBuf,
        /// What the file has.
        found: String,
    },
    /// Nobody says how many heads there are.
    #[error("{} does not say how many heads there are: give --heads, or put its config.json beside it", .0.display())]
    NoHeads(PathBuf),
    /// Bytes for a model of tokens.
    #[error(
        "{} has a vocabulary of {vocabulary}, and without --tokenizer there are 256 bytes: give the \
         tokenizer.json that it was trained with",
        path.display()
    )]
    NoTokenizer {
        /// The file.
        path: PathBuf,
        /// Its vocabulary.
        vocabulary: usize,
    },
}

impl PretrainedError {
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(super) fn damaged<E: Display>(path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |reason| Self::Damaged {
            path,
            reason: first_line(&reason),
        }
    }

    pub(super) fn settings<E: Display>(path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |reason| Self::Settings {
            path,
            reason: first_line(&reason),
        }
    }
}
