//! `gpt train --tui`: Burn's own training dashboard, with what only a recomputing pipeline has to
//! tell: each stage's bytes, and recompute hidden and exposed.
//!
//! Burn counts epochs: here one lasts from one evaluation to the next, and a step is an item of it.
//! `q` in the dashboard asks whether to stop; that is what Ctrl-C is elsewhere, for a terminal that
//! hands over single keys sends no signal.
//!
//! - `shown` is what is told of a step, as Burn's metrics;
//! - `board` tells it to a renderer, and hears whether somebody wants the run to end;
//! - [`quiet`] keeps what is said meanwhile from being written over the picture.

#[cfg(feature = "tui")]
mod board;
pub mod quiet;
#[cfg(feature = "tui")]
mod shown;
#[cfg(all(test, feature = "tui"))]
mod tests;

#[cfg(feature = "tui")]
pub use board::{Board, Course};

/// A dashboard that cannot be shown, or that ended the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DashboardError {
    /// It is left out of this program.
    #[error("--tui is left out of this program: build it with the feature `tui`, or do without")]
    NotBuilt,
    /// Nobody would see it.
    #[error("--tui needs a terminal for standard input and output: do without")]
    NoTerminal,
    /// Somebody chose there to end the run at once.
    #[error("ended from the dashboard, at once: what came after the last save is lost")]
    Killed,
}

/// Finds that a dashboard can be shown.
///
/// # Errors
///
/// If not, why.
pub fn possible() -> Result<(), DashboardError> {
    if !cfg!(feature = "tui") {
        return Err(DashboardError::NotBuilt);
    }
    use std::io::{IsTerminal, stdin, stdout};
    match stdin().is_terminal() && stdout().is_terminal() {
        true => Ok(()),
        false => Err(DashboardError::NoTerminal),
    }
}
