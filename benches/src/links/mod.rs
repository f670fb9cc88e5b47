//! The emulated link beside a real one: a TCP connection over a shaped pair of network devices.
//!
//! - [`wire`] sends series of messages and notes when each was sent and when it was there;
//! - [`model`] says when it should have been;
//! - [`report`] puts both into a table.

pub mod model;
pub mod report;
pub mod wire;
