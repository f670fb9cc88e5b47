//! A save being read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::error::LoadError;
use super::manifest::{Manifest, Seal};
use super::{ABOUT, MANIFEST, STATES, WEIGHTS};

/// A save on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    path: PathBuf,
    manifest: Manifest,
}

impl Save {
    /// Finds the save in the folder at `path`, and that all its files have the length they should
    /// have. Their contents are compared with their checksums when they are read.
    ///
    /// # Errors
    ///
    /// If there is none, or it is not whole.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LoadError> {
        let path = path.into();
        let manifest = path.join(MANIFEST);
        let manifest = match fs::metadata(&manifest) {
            Ok(known) if known.is_file() => Manifest::read(&manifest)?,
            Ok(_) => return Err(LoadError::NotASave(path)),
            // Of a folder that is not there, the system says it best.
            Err(error) => {
                return Err(match fs::metadata(&path) {
                    Err(source) => LoadError::read(&path)(source),
                    Ok(_) if is_absent(&error) => LoadError::NotASave(path),
                    Ok(_) => LoadError::read(&manifest)(error),
                });
            }
        };
        let save = Self { path, manifest };
        for name in [WEIGHTS, STATES, ABOUT] {
            let (path, seal) = (save.path.join(name), save.seal(name)?);
            let known = fs::metadata(&path).map_err(LoadError::read(&path))?;
            if !known.is_file() || known.len() != seal.bytes {
                let what = format!("it has {} bytes instead of {}", known.len(), seal.bytes);
                return Err(LoadError::damaged(&path)(what));
            }
        }
        Ok(save)
    }

    pub(super) fn written(path: PathBuf, manifest: Manifest) -> Self {
        Self { path, manifest }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Optimizer steps taken when it was written.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// The seed of everything random in training.
    pub fn seed(&self) -> u64 {
        self.manifest.seed
    }

    /// The file with the parameters, in safetensors' format.
    pub fn weights(&self) -> PathBuf {
        self.path.join(WEIGHTS)
    }

    /// The same file, found to be what was written.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or its checksum differs.
    pub fn checked_weights(&self) -> Result<PathBuf, LoadError> {
        self.checked(self.weights())
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.path.join(STATES)
    }

    /// What the program that wrote it added.
    ///
    /// # Errors
    ///
    /// If the file is damaged, or holds something else.
    pub fn about<T: DeserializeOwned>(&self) -> Result<T, LoadError> {
        let path = self.path.join(ABOUT);
        let text = fs::read(&path).map_err(LoadError::read(&path))?;
        if crc32fast::hash(&text) != self.seal(ABOUT)?.crc32 {
            return Err(LoadError::damaged(&path)("its checksum differs"));
        }
        serde_json::from_slice(&text).map_err(|error| LoadError::About {
            path,
            reason: error.to_string(),
        })
    }

    /// Compares a file's contents with its checksum, and returns where it is.
    pub(crate) fn checked(&self, path: PathBuf) -> Result<PathBuf, LoadError> {
        let mut file = File::open(&path).map_err(LoadError::read(&path))?;
        let found = Seal::of(&mut file).map_err(LoadError::read(&path))?;
        let name = path.file_name().and_then(|name| name.to_str());
        if found != self.seal(name.unwrap_or_default())? {
            return Err(LoadError::damaged(&path)("its checksum differs"));
        }
        Ok(path)
    }

    fn seal(&self, name: &str) -> Result<Seal, LoadError> {
        let known = self.manifest.files.get(name).copied();
        known.ok_or_else(|| {
            LoadError::damaged(&self.path.join(MANIFEST))(format!("it does not know of {name}"))
        })
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
