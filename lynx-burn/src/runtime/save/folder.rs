//! A folder of saves.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::draft::{Draft, PART, aside, sync_folder};
use super::error::{LoadError, SaveError};
use super::found::Save;

/// Between a save's number and its step.
const STEP: &str = "-step-";

/// A folder in which a run keeps its saves.
///
/// Each save is a folder of its own, `000007-step-350` for the seventh: in order of time, so that a
/// run that began anew in the folder of another still goes on from its own last save. There must be
/// one run at a time that writes.
#[derive(Clone, Debug)]
pub struct Saves {
    path: PathBuf,
    keep: usize,
}

impl Saves {
    /// The saves in the folder at `path`, which is created with the first of them. All are kept.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            keep: usize::MAX,
        }
    }

    /// Keeps so many, at least one: each new save removes the oldest beyond them.
    #[must_use]
    pub fn keep(mut self, count: usize) -> Self {
        self.keep = count.max(1);
        self
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folders of all saves, oldest first.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn all(&self) -> Result<Vec<PathBuf>, LoadError> {
        let read = |source| LoadError::read(&self.path)(source);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(read)? {
            let path = entry.map_err(read)?.path();
            if let Some(number) = path.file_name().and_then(number) {
                found.push((number, path));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    /// The newest save.
    ///
    /// # Errors
    ///
    /// If there is none, or it is not whole. An older one is not taken in its place without being
    /// asked for.
    pub fn latest(&self) -> Result<Save, LoadError> {
        match self.all()?.pop() {
            Some(path) => Save::open(path),
            None => Err(LoadError::Nothing(self.path.clone())),
        }
    }

    /// Begins the next save, and clears away what a killed run left of one.
    pub(crate) fn begin(&self, step: u64) -> Result<Draft, SaveError> {
        fs::create_dir_all(&self.path).map_err(SaveError::write(&self.path))?;
        let mut last = 0;
        for entry in fs::read_dir(&self.path).map_err(SaveError::write(&self.path))? {
            let entry = entry.map_err(SaveError::write(&self.path))?;
            let name = entry.file_name();
            if let Some(number) = number(&name) {
                last = number.max(last);
            } else if unfinished(&name) {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(SaveError::write(&path))?;
            }
        }
        let name = format!("{:06}{STEP}{step}", last.saturating_add(1));
        Draft::begin(self.path.join(name))
    }

    /// Removes the oldest saves beyond those to keep.
    pub(crate) fn prune(&self) -> Result<(), SaveError> {
        let all = self.all().map_err(|error| match error {
            LoadError::Read { path, source } => SaveError::Write { path, source },
            other => SaveError::encode(&self.path)(other),
        })?;
        let beyond = all.len().saturating_sub(self.keep);
        for path in &all[..beyond] {
            // Renamed first: a save that has lost some of its files must not look like one.
            let aside = aside(path);
            fs::rename(path, &aside).map_err(SaveError::write(path))?;
            fs::remove_dir_all(&aside).map_err(SaveError::write(path))?;
        }
        if beyond > 0 {
            sync_folder(&self.path).map_err(SaveError::write(&self.path))?;
        }
        Ok(())
    }
}

/// The number of a save, by the name of its folder.
fn number(name: &OsStr) -> Option<u64> {
    let (number, step) = name.to_str()?.split_once(STEP)?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits(number) && digits(step)).then(|| number.parse().ok())?
}

/// Whether a folder of that name is what is left of a save.
fn unfinished(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_suffix(PART));
    name.is_some_and(|name| number(OsStr::new(name)).is_some())
}
