//! A group whose sums take the time that slower links would.
//!
//! A sum begins when the last rank has come and the sum before is over, and takes what the cost
//! model of [`Link`] says an all-reduce takes: the same figure that planners and the simulator
//! use. All ranks reckon alike, so none has to be told.

use std::time::Instant;

use super::collective::{Collective, CollectiveError, Parts, bytes};
use super::emulated::later;
use super::link::Way;
use super::speed::LinkSpeed;
use crate::plan::cluster::Link;
use crate::units::Bytes;

/// Decorates one rank's end of a group.
pub(crate) struct SlowGroup {
    inner: Box<dyn Collective>,
    link: Link,
    ranks: usize,
    /// Of the sum under way.
    bytes: u64,
    /// When the sum before was there.
    free: Option<Instant>,
    /// Of the sum under way, once it is known.
    way: Option<Way>,
}

impl SlowGroup {
    pub(crate) fn new(inner: Box<dyn Collective>, speed: LinkSpeed, ranks: usize) -> Self {
        Self {
            inner,
            link: Link::from(speed),
            ranks,
            bytes: 0,
            free: None,
            way: None,
        }
    }
}

impl Collective for SlowGroup {
    fn start(&mut self, parts: Parts) -> Result<(), CollectiveError> {
        self.bytes = bytes(&parts);
        self.inner.start(parts)
    }

    fn poll(&mut self) -> Result<Option<Way>, CollectiveError> {
        if self.way.is_none()
            && let Some(way) = self.inner.poll()?
        {
            let begin = self.free.map_or(way.arrive, |free| free.max(way.arrive));
            let time = self.link.all_reduce_time(Bytes(self.bytes), self.ranks);
            let arrive = later(begin, time);
            self.way = Some(Way {
                begin,
                left: arrive,
                arrive,
            });
        }
        Ok(self.way)
    }

    fn wait(&self, until: Option<Instant>) -> Result<(), CollectiveError> {
        self.inner.wait(until)
    }

    fn take(&mut self) -> Result<Parts, CollectiveError> {
        self.free = self.way.take().map(|way| way.arrive);
        self.inner.take()
    }
}
