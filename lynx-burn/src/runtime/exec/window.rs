//! What a stage does where it would wait: recompute for its next backward.
//!
//! Run by run, looking in between whether the wait is over: so a message is kept waiting by one
//! run at most. Only when there is nothing to recompute does the thread sleep.

use std::time::Instant;

use super::error::Cause;
use super::position::Position;
use super::tally::Waited;
use crate::ids::MicroBatchId;
use crate::plan::cluster::Window;
use crate::runtime::chain::Chain;
use crate::runtime::comm::link::{Arrival, Gone, Inlet, Mail, Outlet, Way};
use crate::runtime::stage::{Found, Stage, StageError, Upcoming};

/// A stage that stands before a transfer.
pub(super) struct Waiting<'a, C: Chain> {
    pub(super) stage: &'a mut Stage<C>,
    pub(super) position: &'a Position,
    /// What can be worked for, if anything may be.
    pub(super) next: Option<Upcoming>,
}

impl From<Gone> for Cause {
    fn from(_: Gone) -> Self {
        Self::NeighbourEnded
    }
}

impl<C: Chain> Waiting<'_, C> {
    /// Receives the message for a micro-batch.
    pub(super) fn receive<T>(
        &mut self,
        inlet: Option<&mut (dyn Inlet<T> + 'static)>,
        expected: MicroBatchId,
    ) -> Result<(T, Waited), Cause> {
        let inlet = inlet.ok_or(Cause::NeighbourEnded)?;
        let begin = Instant::now();
        let mail = loop {
            match inlet.poll()? {
                Arrival::Here => {
                    if let Some(mail) = inlet.take() {
                        break mail;
                    }
                }
                Arrival::Expected(way) => {
                    if !self.recompute()? {
                        // It cannot be late before that: nobody is stuck until then.
                        self.position.expects(way.arrive);
                        inlet.wait(Some(way.arrive))?;
                        self.position.waits();
                    }
                }
                Arrival::Unknown => {
                    if !self.recompute()? {
                        inlet.wait(None)?;
                    }
                }
            }
        };
        let (found, way) = (mail.micro_batch, mail.way);
        if found != expected {
            return Err(Cause::OutOfOrder { expected, found });
        }
        let waited = Waited::new(
            begin,
            &[(Window::Bubble, way.begin), (Window::Recv, way.arrive)],
        );
        Ok((mail.message, waited))
    }

    /// Sends a message as soon as there is room for it.
    pub(super) fn send<T>(
        &mut self,
        outlet: Option<&mut (dyn Outlet<T> + 'static)>,
        (id, bytes): (MicroBatchId, u64),
        message: T,
    ) -> Result<(Way, Waited), Cause> {
        let outlet = outlet.ok_or(Cause::NeighbourEnded)?;
        let begin = Instant::now();
        let room_since = loop {
            if let Some(since) = outlet.room()? {
                break since;
            }
            if !self.recompute()? {
                outlet.wait()?;
            }
        };
        let way = outlet.put(Mail::new(id, bytes, message))?;
        Ok((way, Waited::new(begin, &[(Window::Bubble, room_since)])))
    }

    /// Recomputes one run; `false` if there is none to recompute.
    fn recompute(&mut self) -> Result<bool, Cause> {
        let Some(next) = self.next else {
            return Ok(false);
        };
        let Some(found) = self.stage.find_ahead(&next) else {
            return Ok(false);
        };
        rebuild(self.stage, self.position, found)?;
        Ok(true)
    }
}

/// Recomputes where the worker would wait, and has it wait again.
pub(super) fn rebuild<C: Chain>(
    stage: &mut Stage<C>,
    position: &Position,
    found: Found,
) -> Result<(), StageError> {
    let before = position.works();
    stage.recompute_ahead(found)?;
    position.goes_back_to(before);
    Ok(())
}
