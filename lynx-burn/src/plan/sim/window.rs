//! The idle times that can host recompute.
//!
//! One place for their names, so that costs, figures and pictures agree. What
//! is hosted where is decided elsewhere.

use std::fmt;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A kind of idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Window {
    /// The collective after attention, forward.
    F1,
    /// The collective after the MLP, forward.
    F2,
    /// The collective of the MLP half, backward.
    B1,
    /// The collective of the attention half, backward.
    B2,
    /// A stage stands still until its own message has left.
    #[serde(rename = "SEND")]
    Send,
    /// A stage stands still while the message it needs is on its way.
    #[serde(rename = "RECV")]
    Receive,
    /// A stage stands still and nothing moves: what it needs is not made yet, or
    /// there is no room for what it sends.
    #[serde(rename = "BUBBLE")]
    Bubble,
}

impl Window {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::F1,
        Self::F2,
        Self::B1,
        Self::B2,
        Self::Send,
        Self::Receive,
        Self::Bubble,
    ];

    /// Whether it is the collective of a forward.
    pub fn is_of_forward(self) -> bool {
        matches!(self, Self::F1 | Self::F2)
    }

    /// Whether it is the collective of a backward.
    pub fn is_of_backward(self) -> bool {
        matches!(self, Self::B1 | Self::B2)
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
            Self::Receive => "RECV",
            Self::Bubble => "BUBBLE",
        })
    }
}

/// One value for each kind of window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerWindow<T> {
    /// For [`Window::F1`].
    #[serde(rename = "F1")]
    pub f1: T,
    /// For [`Window::F2`].
    #[serde(rename = "F2")]
    pub f2: T,
    /// For [`Window::B1`].
    #[serde(rename = "B1")]
    pub b1: T,
    /// For [`Window::B2`].
    #[serde(rename = "B2")]
    pub b2: T,
    /// For [`Window::Send`].
    #[serde(rename = "SEND")]
    pub send: T,
    /// For [`Window::Receive`].
    #[serde(rename = "RECV")]
    pub receive: T,
    /// For [`Window::Bubble`].
    #[serde(rename = "BUBBLE")]
    pub bubble: T,
}

impl<T: Copy> PerWindow<T> {
    /// The same value for every kind.
    pub fn all(value: T) -> Self {
        Self {
            f1: value,
            f2: value,
            b1: value,
            b2: value,
            send: value,
            receive: value,
            bubble: value,
        }
    }

    /// Every kind with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Window, T)> {
        Window::ALL.into_iter().map(|window| (window, self[window]))
    }
}

impl<T> Index<Window> for PerWindow<T> {
    type Output = T;

    fn index(&self, window: Window) -> &T {
        match window {
            Window::F1 => &self.f1,
            Window::F2 => &self.f2,
            Window::B1 => &self.b1,
            Window::B2 => &self.b2,
            Window::Send => &self.send,
            Window::Receive => &self.receive,
            Window::Bubble => &self.bubble,
        }
    }
}

impl<T> IndexMut<Window> for PerWindow<T> {
    fn index_mut(&mut self, window: Window) -> &mut T {
        match window {
            Window::F1 => &mut self.f1,
            Window::F2 => &mut self.f2,
            Window::B1 => &mut self.b1,
            Window::B2 => &mut self.b2,
            Window::Send => &mut self.send,
            Window::Receive => &mut self.receive,
            Window::Bubble => &mut self.bubble,
        }
    }
}
