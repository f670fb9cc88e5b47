//! The link within a process: a bounded mailbox.
//!
//! A mailbox belongs to one step: no message of a step that failed can reach the next one. A wait
//! ends when there is news, when the other end is gone, or when the crew is told to stop; it has no
//! timeout of its own, because only the crew can tell a slow neighbour from a stuck one.
//!
//! At capacity 0 a send needs its receive: there is room from the moment at which the receiver
//! stands before it. That it stands there is remembered, so that a receiver which does something
//! useful in the meantime, and a sender which does too, do not miss each other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TryRecvError, at, bounded, never, select_biased};

use super::link::{Arrival, Gone, Inlet, Mail, Outlet, Way};

/// Ends every wait when the crew drops its side.
pub(crate) type StopSignal = Receiver<std::convert::Infallible>;

/// The end that sends.
pub(crate) struct MailboxOutlet<T>(End<T>);

/// The end that receives.
pub(crate) struct MailboxInlet<T>(End<T>);

struct End<T> {
    shared: Arc<Mutex<Shared<T>>>,
    /// Holds at most one token: there is news since this end last looked.
    news: Receiver<()>,
    tell_other: Sender<()>,
    stop: StopSignal,
}

struct Shared<T> {
    queue: VecDeque<Mail<T>>,
    capacity: usize,
    /// The receiver stands before its next receive.
    met: bool,
    /// Since when there is room, if there is.
    room_since: Instant,
    one_end_is_gone: bool,
}

/// A mailbox that holds at most `capacity` messages.
pub(crate) fn mailbox<T>(
    capacity: usize,
    stop: &StopSignal,
) -> (MailboxOutlet<T>, MailboxInlet<T>) {
    let shared = Arc::new(Mutex::new(Shared {
        queue: VecDeque::new(),
        capacity,
        met: false,
        room_since: Instant::now(),
        one_end_is_gone: false,
    }));
    let (to_sender, of_sender) = bounded(1);
    let (to_receiver, of_receiver) = bounded(1);
    let end = |news, tell_other| End {
        shared: shared.clone(),
        news,
        tell_other,
        stop: stop.clone(),
    };
    (
        MailboxOutlet(end(of_sender, to_receiver)),
        MailboxInlet(end(of_receiver, to_sender)),
    )
}

impl<T> Shared<T> {
    fn has_room(&self) -> bool {
        match self.capacity {
            0 => self.met && self.queue.is_empty(),
            capacity => self.queue.len() < capacity,
        }
    }
}

impl<T> End<T> {
    fn lock(&self) -> MutexGuard<'_, Shared<T>> {
        // Nothing that can panic happens under the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        // A token that is there already says the same.
        let _ = self.tell_other.try_send(());
    }

    fn check_stop(&self) -> Result<(), Gone> {
        match self.stop.try_recv() {
            Err(TryRecvError::Disconnected) => Err(Gone),
            _ => Ok(()),
        }
    }

    fn wait(&self, until: Option<Instant>) -> Result<(), Gone> {
        let over = until.map_or_else(never, at);
        select_biased! {
            recv(self.stop) -> _ => Err(Gone),
            recv(self.news) -> _ => Ok(()),
            recv(over) -> _ => Ok(()),
        }
    }
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        self.lock().one_end_is_gone = true;
        self.tell();
    }
}

impl<T: Send> Outlet<T> for MailboxOutlet<T> {
    fn room(&self) -> Result<Option<Instant>, Gone> {
        self.0.check_stop()?;
        let shared = self.0.lock();
        if shared.one_end_is_gone {
            return Err(Gone);
        }
        Ok(shared.has_room().then_some(shared.room_since))
    }

    fn wait(&self) -> Result<(), Gone> {
        self.0.wait(None)
    }

    fn put(&mut self, mail: Mail<T>) -> Result<Way, Gone> {
        let way = mail.way;
        let mut shared = self.0.lock();
        if shared.one_end_is_gone {
            return Err(Gone);
        }
        shared.queue.push_back(mail);
        drop(shared);
        self.0.tell();
        Ok(way)
    }
}

impl<T: Send> Inlet<T> for MailboxInlet<T> {
    fn poll(&mut self) -> Result<Arrival, Gone> {
        self.0.check_stop()?;
        let mut shared = self.0.lock();
        match shared.queue.front() {
            Some(mail) if mail.way.arrive <= Instant::now() => return Ok(Arrival::Here),
            Some(mail) => return Ok(Arrival::Expected(mail.way)),
            None if shared.one_end_is_gone => return Err(Gone),
            None => {}
        }
        if shared.capacity == 0 && !shared.met {
            shared.met = true;
            shared.room_since = Instant::now();
            drop(shared);
            self.0.tell();
        }
        Ok(Arrival::Unknown)
    }

    fn wait(&self, until: Option<Instant>) -> Result<(), Gone> {
        self.0.wait(until)
    }

    fn take(&mut self) -> Option<Mail<T>> {
        let now = Instant::now();
        let mut shared = self.0.lock();
        shared.queue.front().filter(|mail| mail.way.arrive <= now)?;
        let was_full = !shared.has_room();
        let mail = shared.queue.pop_front();
        shared.met = false;
        if was_full {
            shared.room_since = now;
        }
        drop(shared);
        self.0.tell();
        mail
    }
}
