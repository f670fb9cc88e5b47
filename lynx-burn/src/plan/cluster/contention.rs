//! What of a window recomputation can really use.
//!
//! A device that waits is not wholly idle: a collective runs kernels of its own, takes memory
//! bandwidth and breaks the other kernels' waves. So a window of length `w` hosts recompute of
//! `factor * w` at most. The factor speaks of throughput only; whether the memory suffices is the
//! planner's business.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// A kind of idle time that can host recomputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Window {
    /// The collective after attention, forward.
    F1,
    /// The collective after the MLP, forward.
    F2,
    /// The collective between the MLP's backward and attention's.
    B1,
    /// The collective between attention's backward and that of the layer before.
    B2,
    /// Waiting for a message to leave.
    Send,
    /// Waiting for a message to arrive.
    Recv,
    /// No work in the pipeline.
    Bubble,
}

/// For each kind of window, the share of it in `0..=1` that recomputation can use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "UPPERCASE")]
pub struct Contention {
    /// Of [`Window::F1`].
    pub f1: f64,
    /// Of [`Window::F2`].
    pub f2: f64,
    /// Of [`Window::B1`].
    pub b1: f64,
    /// Of [`Window::B2`].
    pub b2: f64,
    /// Of [`Window::Send`].
    pub send: f64,
    /// Of [`Window::Recv`].
    pub recv: f64,
    /// Of [`Window::Bubble`].
    pub bubble: f64,
}

impl Window {
    /// Every kind of window.
    pub const ALL: [Self; 7] = [
        Self::F1,
        Self::F2,
        Self::B1,
        Self::B2,
        Self::Send,
        Self::Recv,
        Self::Bubble,
    ];
}

impl Contention {
    /// Every window can be used whole: a bound, not a machine.
    pub const NONE: Self = Self::uniform(1.0, 1.0, 1.0);

    /// One factor for the collectives, one for the transfers, one for bubbles.
    pub const fn uniform(collective: f64, transfer: f64, bubble: f64) -> Self {
        Self {
            f1: collective,
            f2: collective,
            b1: collective,
            b2: collective,
            send: transfer,
            recv: transfer,
            bubble,
        }
    }

    /// The factor of a kind of window.
    pub fn factor(&self, window: Window) -> f64 {
        match window {
            Window::F1 => self.f1,
            Window::F2 => self.f2,
            Window::B1 => self.b1,
            Window::B2 => self.b2,
            Window::Send => self.send,
            Window::Recv => self.recv,
            Window::Bubble => self.bubble,
        }
    }

    /// How much recomputation a window of this length can host: never more than its length.
    pub fn capacity(&self, window: Window, length: Nanos) -> Nanos {
        length.scaled(self.factor(window)).min(length)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F1 => "F1",
            Self::F2 => "F2",
            Self::B1 => "B1",
            Self::B2 => "B2",
            Self::Send => "SEND",
            Self::Recv => "RECV",
            Self::Bubble => "BUBBLE",
        })
    }
}
