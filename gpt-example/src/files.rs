//! Files that are there whole or not at all.
//!
//! What is written goes to a file aside, which takes the place of the old one when it is complete:
//! a plan or picture of an earlier run is never lost to a full disk.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that cannot be written; what was there before is still there.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

impl WriteError {
    /// What the system says of the file at `path`.
    pub(crate) fn new(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self { path, source }
    }
}

/// Writes a file with what `fill` writes.
///
/// # Errors
///
/// If the system does not allow it, or `fill` fails.
pub fn write(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let done = match fs::metadata(path) {
        // A pipe or terminal cannot be replaced, and has nothing to lose.
        Ok(known) if !known.is_file() && !known.is_dir() => {
            File::create(path).and_then(|mut file| fill(&mut file))
        }
        Ok(known) if known.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => replace(path, fill),
    };
    done.map_err(WriteError::new(path))
}

fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // Where the path is a link, what it points to is replaced, and the link stays.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let aside = path.with_file_name(name);
    let complete = File::create(&aside).and_then(|file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        // Not when dropped, where nobody would hear of a full disk.
        out.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        fs::rename(&aside, &path)
    });
    if complete.is_err() {
        // It may not even have been created.
        let _ = fs::remove_file(&aside);
    }
    complete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_finished_leaves_the_old_one_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.json");
        write(&path, |out| out.write_all(b"old")).expect("written");
        let error = write(&path, |out| {
            out.write_all(&[b'x'; 100_000])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        let error = error.expect_err("the disk is full").to_string();
        assert!(error.contains("plan.json"), "{error}");
        assert_eq!(fs::read(&path).expect("still there"), b"old");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        write(&path, |out| out.write_all(b"new")).expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"new");
    }

    #[test]
    fn folders_and_missing_folders_are_refused_with_the_path() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [folder.path().to_owned(), folder.path().join("no/such/file")] {
            let error = write(&path, |_| Ok(()))
                .expect_err("impossible")
                .to_string();
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        write(&link, |out| out.write_all(b"new")).expect("written");
        assert_eq!(fs::read(&file).expect("there"), b"new");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    }
}
