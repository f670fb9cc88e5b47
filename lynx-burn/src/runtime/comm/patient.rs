//! Neighbours that are not there: for a worker that runs its part of a step alone.
//!
//! They are later than anything a worker can do meanwhile: a message or a sum comes once the worker
//! has nothing left to recompute. What they send are copies of a sample, made where they are taken.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::collective::{Collective, CollectiveError, Parts};
use super::group::{GroupMember, group};
use super::link::{Arrival, Gone, Inlet, Mail, Outlet, Way};
use super::mailbox::StopSignal;
use crate::ids::MicroBatchId;

/// Comes once it is waited for.
#[derive(Debug, Default)]
struct Patience(AtomicBool);

impl Patience {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn begin(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The end of a link from which copies of a sample come.
pub(crate) struct Copies<T, F> {
    /// The micro-batches, in the order in which they are received.
    order: VecDeque<MicroBatchId>,
    copy: F,
    patience: Patience,
    sample: std::marker::PhantomData<fn() -> T>,
}

impl<T, F: FnMut() -> T + Send> Copies<T, F> {
    pub(crate) fn new(order: impl IntoIterator<Item = MicroBatchId>, copy: F) -> Self {
        Self {
            order: order.into_iter().collect(),
            copy,
            patience: Patience::default(),
            sample: std::marker::PhantomData,
        }
    }
}

impl<T, F: FnMut() -> T + Send> Inlet<T> for Copies<T, F> {
    fn poll(&mut self) -> Result<Arrival, Gone> {
        match self.order.is_empty() {
            true => Err(Gone),
            false if self.patience.is_over() => Ok(Arrival::Here),
            false => Ok(Arrival::Unknown),
        }
    }

    fn wait(&self, _: Option<Instant>) -> Result<(), Gone> {
        self.patience.end();
        Ok(())
    }

    fn take(&mut self) -> Option<Mail<T>> {
        self.patience.begin();
        let micro_batch = self.order.pop_front()?;
        Some(Mail::new(micro_batch, 0, (self.copy)()))
    }
}

/// The end of a link that hands every message to somebody else.
pub(crate) struct Handed<F>(pub(crate) F);

impl<T: Send, F: FnMut(T) + Send> Outlet<T> for Handed<F> {
    fn room(&self) -> Result<Option<Instant>, Gone> {
        Ok(Some(Instant::now()))
    }

    fn wait(&self) -> Result<(), Gone> {
        Ok(())
    }

    fn put(&mut self, mail: Mail<T>) -> Result<Way, Gone> {
        (self.0)(mail.message);
        Ok(mail.way)
    }
}

/// A group whose other ranks are not there: a sum is the rank's own part, in memory of its own as a
/// sum would be.
pub(crate) struct Lonely {
    own: Vec<GroupMember>,
    patience: Patience,
}

impl Lonely {
    pub(crate) fn new(stop: &StopSignal) -> Self {
        Self {
            own: group(1, stop),
            patience: Patience::default(),
        }
    }

    fn member(&mut self) -> Result<&mut GroupMember, CollectiveError> {
        self.own.first_mut().ok_or(CollectiveError::Gone)
    }
}

impl Collective for Lonely {
    fn start(&mut self, parts: Parts) -> Result<(), CollectiveError> {
        self.patience.begin();
        self.member()?.start(parts)
    }

    fn poll(&mut self) -> Result<Option<Way>, CollectiveError> {
        let way = self.member()?.poll()?;
        Ok(way.filter(|_| self.patience.is_over()))
    }

    fn wait(&self, _: Option<Instant>) -> Result<(), CollectiveError> {
        self.patience.end();
        Ok(())
    }

    fn take(&mut self) -> Result<Parts, CollectiveError> {
        self.member()?.take()
    }
}
