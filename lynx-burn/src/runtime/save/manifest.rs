//! `save.json`: what a save consists of, and how to tell that it still does.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::LoadError;

/// What this version writes and reads.
pub(super) const FORMAT: u64 = 1;

/// No `save.json` is larger; one that is was not written here.
const LARGEST: u64 = 1 << 16;

/// What a save consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: u64,
    /// Optimizer steps taken.
    pub(super) step: u64,
    /// Of everything random in training.
    pub(super) seed: u64,
    pub(super) files: BTreeMap<String, Seal>,
}

/// What a file was when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seal {
    pub(super) bytes: u64,
    pub(super) crc32: u32,
}

/// The file: a manifest and the checksum of its text, because a step that lost a bit would pass for
/// another step.
#[derive(Serialize, Deserialize)]
struct Sealed {
    save: Manifest,
    crc32: u32,
}

/// Only to tell a later format, whatever else that has, from damage.
#[derive(Deserialize)]
struct AnyFormat {
    save: OnlyFormat,
}

#[derive(Deserialize)]
struct OnlyFormat {
    format: u64,
}

impl Manifest {
    pub(super) fn text(&self) -> serde_json::Result<String> {
        let sealed = Sealed {
            save: self.clone(),
            crc32: self.crc32()?,
        };
        Ok(serde_json::to_string_pretty(&sealed)? + "\n")
    }

    /// Of the text without spaces: fields come in their order and numbers are whole, so it is the
    /// same whoever writes it.
    fn crc32(&self) -> serde_json::Result<u32> {
        Ok(crc32fast::hash(&serde_json::to_vec(self)?))
    }

    /// Reads a file that [`text`](Self::text) filled.
    pub(super) fn read(path: &Path) -> Result<Self, LoadError> {
        let mut text = Vec::new();
        let file = File::open(path).map_err(LoadError::read(path))?;
        file.take(LARGEST)
            .read_to_end(&mut text)
            .map_err(LoadError::read(path))?;
        let sealed: Sealed = match serde_json::from_slice(&text) {
            Ok(sealed) => sealed,
            Err(error) => {
                return Err(match serde_json::from_slice::<AnyFormat>(&text) {
                    Ok(any) if any.save.format > FORMAT => later(path, any.save.format),
                    _ => LoadError::damaged(path)(error),
                });
            }
        };
        if sealed.save.format > FORMAT {
            return Err(later(path, sealed.save.format));
        }
        let crc32 = sealed.save.crc32().map_err(LoadError::damaged(path))?;
        if crc32 != sealed.crc32 {
            return Err(LoadError::damaged(path)("its checksum differs"));
        }
        Ok(sealed.save)
    }
}

fn later(path: &Path, found: u64) -> LoadError {
    LoadError::Format {
        path: path.to_owned(),
        found,
        known: FORMAT,
    }
}

impl Seal {
    /// Of the file as it is.
    pub(super) fn of(file: &mut File) -> io::Result<Self> {
        let mut hasher = crc32fast::Hasher::new();
        let mut bytes = 0;
        let mut part = vec![0; 1 << 16];
        loop {
            match file.read(&mut part)? {
                0 => break,
                count => {
                    hasher.update(&part[..count]);
                    bytes += count as u64;
                }
            }
        }
        Ok(Self {
            bytes,
            crc32: hasher.finalize(),
        })
    }
}
