//! One direction between two neighbouring stages.
//!
//! A message carries the instants of its own way, and the receiving end honours them: it may be
//! read when it has arrived, and not before. So a link that takes time needs no thread of its own.

use std::time::Instant;

use crate::ids::MicroBatchId;

/// When a message was where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// It begins to occupy the link.
    pub(crate) begin: Instant,
    /// It has left: the link is free for the next.
    pub(crate) left: Instant,
    /// It may be read.
    pub(crate) arrive: Instant,
}

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Mail<T> {
    pub(crate) micro_batch: MicroBatchId,
    /// Of its tensors.
    pub(crate) bytes: u64,
    pub(crate) message: T,
    pub(crate) way: Way,
}

/// What is known of the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It can be taken.
    Here,
    /// It was sent, and has not arrived.
    Expected(Way),
    /// It was not sent, as far as anybody here knows.
    Unknown,
}

/// The other end is gone, or everybody was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// The end of a link that sends.
pub(crate) trait Outlet<T>: Send {
    /// Since when there is room for the next message; nothing while there is none.
    fn room(&self) -> Result<Option<Instant>, Gone>;

    /// Blocks until there may be room.
    fn wait(&self) -> Result<(), Gone>;

    /// Hands over a message for which there is room; returns its way.
    fn put(&mut self, mail: Mail<T>) -> Result<Way, Gone>;
}

/// The end of a link that receives.
pub(crate) trait Inlet<T>: Send {
    /// What is known of the next message. Who asks, stands before its receive.
    fn poll(&mut self) -> Result<Arrival, Gone>;

    /// Blocks until there may be news, but not beyond `until`.
    fn wait(&self, until: Option<Instant>) -> Result<(), Gone>;

    /// Takes the next message, if it is here.
    fn take(&mut self) -> Option<Mail<T>>;
}

impl Way {
    /// Of a link that takes no time.
    pub(crate) fn at_once(now: Instant) -> Self {
        Self {
            begin: now,
            left: now,
            arrive: now,
        }
    }
}

impl<T> Mail<T> {
    /// A message that is sent now.
    pub(crate) fn new(micro_batch: MicroBatchId, bytes: u64, message: T) -> Self {
        Self {
            micro_batch,
            bytes,
            message,
            way: Way::at_once(Instant::now()),
        }
    }
}
