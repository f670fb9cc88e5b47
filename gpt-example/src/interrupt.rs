//! Ctrl-C: the first one asks the run to end well, the second one ends it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What shells report of a program that Ctrl-C ended.
pub(crate) const ENDED_BY_CTRL_C: u8 = 130;

/// Whether somebody wants the run to end.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C, and for the request to end that schedulers send before they kill.
    ///
    /// # Errors
    ///
    /// If the system does not allow it.
    pub fn listen() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down, and raises it.
            flag::register_conditional_shutdown(signal, ENDED_BY_CTRL_C.into(), asked.clone())?;
            flag::register(signal, asked.clone())?;
        }
        Ok(Self(asked))
    }

    /// Whether the run has been asked to end.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
