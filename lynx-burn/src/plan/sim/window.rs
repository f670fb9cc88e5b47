//! One value for each kind of window.
//!
//! The kinds themselves, and how much of each can be used, belong to the
//! [cluster](crate::plan::cluster); here is what is counted by kind. In a
//! simulation SEND means that a stage stands still until its own message has
//! left, RECV that the message it needs is on its way, and BUBBLE that nothing
//! moves: what it needs is not made yet, or what it sends finds no room.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

pub use crate::plan::cluster::Window;

/// Whether it is the collective of a forward.
pub(super) fn is_of_forward(window: Window) -> bool {
    matches!(window, Window::F1 | Window::F2)
}

/// Whether it is the collective of a backward.
pub(super) fn is_of_backward(window: Window) -> bool {
    matches!(window, Window::B1 | Window::B2)
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
    /// For [`Window::Recv`].
    #[serde(rename = "RECV")]
    pub recv: T,
    /// For [`Window::Bubble`].
    #[serde(rename = "BUBBLE")]
    pub bubble: T,
}

impl<T: Copy> PerWindow<T> {
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
            Window::Recv => &self.recv,
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
            Window::Recv => &mut self.recv,
            Window::Bubble => &mut self.bubble,
        }
    }
}
