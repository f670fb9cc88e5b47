//! Data files: read, checked, and written so that a person can edit them.
//!
//! Any type of the plan layer with serde and a check of its own can use [`read`] and [`write()`];
//! [`Cluster`]'s own functions are at the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Cluster, ClusterError};

/// A text that is no valid value.
#[derive(Debug, thiserror::Error)]
pub enum JsonError<E: std::error::Error> {
    /// It is no JSON, or a field is missing, unknown or of the wrong type.
    #[error("{0}")]
    Syntax(serde_json::Error),
    /// It can be read, but makes no sense.
    #[error("{0}")]
    Invalid(E),
}

/// A file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError<E: std::error::Error> {
    /// The file system refused to read.
    #[error("cannot read {}: {problem}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: io::Error,
    },
    /// The file system refused to write.
    #[error("cannot write {}: {problem}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: io::Error,
    },
    /// What it holds, or should hold, is no valid value.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: JsonError<E>,
    },
}

/// Reads a value from a text and checks it.
pub(in crate::plan) fn from_text<T, E>(
    text: &str,
    check: impl FnOnce(&T) -> Result<(), E>,
) -> Result<T, JsonError<E>>
where
    T: DeserializeOwned,
    E: std::error::Error,
{
    let value = serde_json::from_str(text).map_err(JsonError::Syntax)?;
    check(&value).map_err(JsonError::Invalid)?;
    Ok(value)
}

/// Checks a value and writes it as a text, one field a line.
pub(in crate::plan) fn to_text<T, E>(
    value: &T,
    check: impl FnOnce(&T) -> Result<(), E>,
) -> Result<String, JsonError<E>>
where
    T: Serialize,
    E: std::error::Error,
{
    check(value).map_err(JsonError::Invalid)?;
    let mut text = serde_json::to_string_pretty(value).map_err(JsonError::Syntax)?;
    text.push('\n');
    Ok(text)
}

/// Reads a file with `parse`.
pub(in crate::plan) fn read<T, E: std::error::Error>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, JsonError<E>>,
) -> Result<T, FileError<E>> {
    let text = fs::read_to_string(path).map_err(|problem| FileError::Read {
        path: path.to_owned(),
        problem,
    })?;
    parse(&text).map_err(|problem| FileError::Content {
        path: path.to_owned(),
        problem,
    })
}

/// Writes a text, or says that there is none.
pub(in crate::plan) fn write<E: std::error::Error>(
    path: &Path,
    text: Result<String, JsonError<E>>,
) -> Result<(), FileError<E>> {
    let path = || path.to_owned();
    let text = text.map_err(|problem| FileError::Content {
        path: path(),
        problem,
    })?;
    fs::write(path(), text).map_err(|problem| FileError::Write {
        path: path(),
        problem,
    })
}

impl Cluster {
    /// Reads a description in JSON and checks it.
    pub fn from_json(text: &str) -> Result<Self, JsonError<ClusterError>> {
        from_text(text, Self::validate)
    }

    /// The description in JSON. Refuses what [`Cluster::from_json`] would not read.
    pub fn to_json(&self) -> Result<String, JsonError<ClusterError>> {
        to_text(self, Self::validate)
    }

    /// Reads a description from a JSON file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileError<ClusterError>> {
        read(path.as_ref(), Self::from_json)
    }

    /// Writes the description to a JSON file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), FileError<ClusterError>> {
        write(path.as_ref(), self.to_json())
    }
}
