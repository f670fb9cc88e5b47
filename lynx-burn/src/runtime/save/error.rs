//! Why a save cannot be written or read.

use std::io;
use std::path::{Path, PathBuf};

use crate::runtime::trainer::TrainError;

/// A save that was not written: those that were there before still are. Or one that was, beyond
/// which an older one could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The system does not allow it, or the disk is full.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What is to be saved has no place in the file.
    #[error("cannot write {}: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What Burn or serde says.
        reason: String,
    },
    /// The trainer could not give its state.
    #[error(transparent)]
    Train(Box<TrainError>),
}

impl From<TrainError> for SaveError {
    fn from(error: TrainError) -> Self {
        Self::Train(Box::new(error))
    }
}

impl From<TrainError> for LoadError {
    fn from(error: TrainError) -> Self {
        Self::Train(Box::new(error))
    }
}

impl SaveError {
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }

    pub(crate) fn encode<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        |error| Self::Encode {
            path,
            reason: error.to_string(),
        }
    }
}

/// A save that a trainer cannot go on from. The trainer is what it was.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder is not there, or may not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A folder without saves.
    #[error("{} holds no save", .0.display())]
    Nothing(PathBuf),
    /// A folder, or a file, that is something else.
    #[error("{} is not a save: it has no save.json", .0.display())]
    NotASave(PathBuf),
    /// A save of a later version of this library.
    #[error("{} has format {found}; this version reads format {known}", path.display())]
    Format {
        /// Its `save.json`.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The format that can be read.
        known: u64,
    },
    /// A file is not what was written.
    #[error("{} is damaged, {what}: take an older save", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that shows.
        what: String,
    },
    /// What the program added is not what this program adds.
    #[error("{} was not written by this program: {reason}", path.display())]
    About {
        /// The file.
        path: PathBuf,
        /// What serde says.
        reason: String,
    },
    /// The model has a parameter that the saved one had not.
    #[error("the save is of another model: it has no parameter `{0}`")]
    Missing(String),
    /// The saved model had a parameter that the model has not.
    #[error("the save is of another model: this one has no parameter `{0}`")]
    Unexpected(String),
    /// A parameter of one name and two forms.
    #[error(
        "the save is of another model: its parameter `{parameter}` is {saved}, here it is {here}"
    )]
    Differs {
        /// The parameter.
        parameter: String,
        /// Type and shape in the save.
        saved: String,
        /// Type and shape in the model.
        here: String,
    },
    /// The optimizer's state is another kind's.
    #[error(
        "the save is of another optimizer: this one cannot go on from its state of `{parameter}`"
    )]
    Optimizer {
        /// A parameter for which that is so.
        parameter: String,
    },
    /// The trainer could not take the state.
    #[error(transparent)]
    Train(Box<TrainError>),
}

impl LoadError {
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(crate) fn damaged<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |error| Self::Damaged {
            path,
            // Some of Burn's messages end with a hint in lines of their own.
            what: error
                .to_string()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}
