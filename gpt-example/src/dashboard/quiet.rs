//! Keeps warnings until the dashboard is closed: in the midst of a picture nobody can read them.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that are kept: the first to go wrong says most, and a run may be long.
const MOST: usize = 1 << 20;

/// What was written to [`Stderr`] while somebody held a [`Quiet`].
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard error, which waits while a dashboard is up. One is enough for a process.
#[derive(Debug, Default)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match held().as_mut() {
            Some(kept) if kept.len() < MOST => kept.write(text),
            Some(_) => Ok(text.len()),
            None => io::stderr().write(text),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// As long as it lives, [`Stderr`] waits.
#[derive(Debug)]
pub(crate) struct Quiet(());

impl Quiet {
    #[cfg_attr(not(feature = "tui"), allow(dead_code, reason = "no dashboard"))]
    pub(crate) fn begin() -> Self {
        held().get_or_insert_default();
        Self(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(kept) = held().take() {
            // Nobody may be reading.
            let _ = io::stderr().write_all(&kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_meanwhile_waits_for_the_end() {
        let quiet = Quiet::begin();
        Stderr.write_all(b"first, ").expect("kept");
        Stderr.write_all(b"second\n").expect("kept");
        assert_eq!(held().as_deref(), Some(&b"first, second\n"[..]));
        drop(quiet);
        assert!(held().is_none());
    }
}
