//! A link that takes the time that a slower one would.
//!
//! It carries one message at a time: a message begins when the link is free, occupies it for its
//! bytes over the bandwidth, and may be read a latency later. Nothing waits for that here: a send
//! writes the instants on the message and is over, and the receiving end reads them.

use std::time::{Duration, Instant};

use super::link::{Gone, Mail, Outlet, Way};
use super::speed::LinkSpeed;
use crate::units::Nanos;

/// Decorates the sending end of a link.
pub(crate) struct Emulated<O> {
    inner: O,
    speed: LinkSpeed,
    /// When the last message has left.
    free: Option<Instant>,
}

impl<O> Emulated<O> {
    pub(crate) fn new(inner: O, speed: LinkSpeed) -> Self {
        Self {
            inner,
            speed,
            free: None,
        }
    }
}

impl<T, O: Outlet<T>> Outlet<T> for Emulated<O> {
    fn room(&self) -> Result<Option<Instant>, Gone> {
        self.inner.room()
    }

    fn wait(&self) -> Result<(), Gone> {
        self.inner.wait()
    }

    fn put(&mut self, mail: Mail<T>) -> Result<Way, Gone> {
        let sent = mail.way.arrive;
        let begin = self.free.map_or(sent, |free| free.max(sent));
        let left = later(begin, self.speed.wire_time(mail.bytes));
        self.free = Some(left);
        let way = Way {
            begin,
            left,
            arrive: later(left, self.speed.latency),
        };
        self.inner.put(Mail { way, ..mail })
    }
}

/// The longest span is 584 years, which a clock that counts seconds in 64 bits can add to.
pub(super) fn later(instant: Instant, span: Nanos) -> Instant {
    let span = Duration::from_nanos(span.0);
    instant.checked_add(span).unwrap_or(instant)
}
