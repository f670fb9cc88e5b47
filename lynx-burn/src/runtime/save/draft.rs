//! A save being written.
//!
//! Its folder has a name that no reader takes for a save. When all of it has reached the disk, the
//! folder gets its real name: a kill, or a power cut, before that instant leaves the save before.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::SaveError;
use super::found::Save;
use super::manifest::{FORMAT, Manifest, Seal};
use super::{ABOUT, MANIFEST, STATES, WEIGHTS};

/// How the folder of an unfinished save ends.
pub(super) const PART: &str = ".part";

/// Where the save at `path` is as long as it is not whole.
pub(super) fn aside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(PART);
    aside.into()
}

/// An unfinished save, gone if it is dropped.
pub(crate) struct Draft {
    aside: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl Draft {
    /// Begins the save that will be at `path`.
    pub(super) fn begin(path: PathBuf) -> Result<Self, SaveError> {
        let aside = aside(&path);
        fs::create_dir(&aside).map_err(SaveError::write(&aside))?;
        Ok(Self {
            aside,
            path,
            finished: false,
        })
    }

    pub(crate) fn weights(&self) -> PathBuf {
        self.aside.join(WEIGHTS)
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.aside.join(STATES)
    }

    /// Writes what the program adds.
    pub(crate) fn about(&self, text: &[u8]) -> Result<(), SaveError> {
        let path = self.aside.join(ABOUT);
        fs::write(&path, text).map_err(SaveError::write(&path))
    }

    /// Seals the files, sees them to the disk, and gives the folder its name.
    pub(crate) fn finish(mut self, step: u64, seed: u64) -> Result<Save, SaveError> {
        // Who writes safetensors gives the file to its owner alone.
        let usual = self.aside.join(ABOUT);
        fs::metadata(&usual)
            .and_then(|known| fs::set_permissions(self.weights(), known.permissions()))
            .map_err(SaveError::write(&self.weights()))?;
        let mut files = BTreeMap::new();
        for name in [WEIGHTS, STATES, ABOUT] {
            let path = self.aside.join(name);
            let seal = seal(&path).map_err(SaveError::write(&path))?;
            files.insert(name.to_owned(), seal);
        }
        let manifest = Manifest {
            format: FORMAT,
            step,
            seed,
            files,
        };
        let path = self.aside.join(MANIFEST);
        manifest
            .text()
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&path, text))
            .and_then(|()| seal(&path))
            .map_err(SaveError::write(&path))?;
        sync_folder(&self.aside).map_err(SaveError::write(&self.aside))?;
        fs::rename(&self.aside, &self.path).map_err(SaveError::write(&self.path))?;
        self.finished = true;
        if let Some(parent) = self.path.parent() {
            sync_folder(parent).map_err(SaveError::write(parent))?;
        }
        Ok(Save::written(self.path.clone(), manifest))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.finished {
            // Whatever is left, the next save clears away.
            let _ = fs::remove_dir_all(&self.aside);
        }
    }
}

/// Sees a file to the disk.
fn seal(path: &Path) -> io::Result<Seal> {
    // Windows syncs only what may be written.
    let mut file = File::options().read(true).write(true).open(path)?;
    let seal = Seal::of(&mut file)?;
    file.sync_all()?;
    Ok(seal)
}

/// Sees a folder's names to the disk, where folders can be opened.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
