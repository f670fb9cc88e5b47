//! Bounded mailboxes between neighbouring stages.
//!
//! A mailbox belongs to one step: no message of a step that failed can reach the next one. A wait
//! ends when the message is there, when the neighbour is gone, or when the crew is told to stop;
//! it has no timeout of its own, because only the crew can tell a slow neighbour from a stuck one.

use crossbeam_channel::{Receiver, Sender, bounded, never, select_biased};

use super::error::Cause;
use crate::ids::MicroBatchId;

/// Ends every wait when the crew drops its side.
pub(crate) type StopSignal = Receiver<std::convert::Infallible>;

/// What one stage sends to its neighbours and receives from them.
///
/// Stages at the ends lack one side; the schedule's validator has made sure that they do not use
/// it.
pub(crate) struct Mailboxes<F, B> {
    send_forward: Option<Sender<(MicroBatchId, F)>>,
    receive_forward: Receiver<(MicroBatchId, F)>,
    send_backward: Option<Sender<(MicroBatchId, B)>>,
    receive_backward: Receiver<(MicroBatchId, B)>,
    stop: StopSignal,
}

/// The mailboxes of `stages` stages, each holding at most `capacity` messages; at 0 a send waits
/// for its receive.
pub(crate) fn connect<F, B>(
    stages: usize,
    capacity: usize,
    stop: &StopSignal,
) -> Vec<Mailboxes<F, B>> {
    let mut boxes: Vec<Mailboxes<F, B>> = (0..stages)
        .map(|_| Mailboxes {
            send_forward: None,
            receive_forward: never(),
            send_backward: None,
            receive_backward: never(),
            stop: stop.clone(),
        })
        .collect();
    for left in 1..stages {
        let (sender, receiver) = bounded(capacity);
        boxes[left - 1].send_forward = Some(sender);
        boxes[left].receive_forward = receiver;
        let (sender, receiver) = bounded(capacity);
        boxes[left].send_backward = Some(sender);
        boxes[left - 1].receive_backward = receiver;
    }
    boxes
}

impl<F, B> Mailboxes<F, B> {
    pub(crate) fn send_forward(&self, id: MicroBatchId, message: F) -> Result<(), Cause> {
        send(self.send_forward.as_ref(), &self.stop, id, message)
    }

    pub(crate) fn send_backward(&self, id: MicroBatchId, message: B) -> Result<(), Cause> {
        send(self.send_backward.as_ref(), &self.stop, id, message)
    }

    pub(crate) fn receive_forward(&self, id: MicroBatchId) -> Result<F, Cause> {
        receive(&self.receive_forward, &self.stop, id)
    }

    pub(crate) fn receive_backward(&self, id: MicroBatchId) -> Result<B, Cause> {
        receive(&self.receive_backward, &self.stop, id)
    }
}

fn send<T>(
    sender: Option<&Sender<(MicroBatchId, T)>>,
    stop: &StopSignal,
    id: MicroBatchId,
    message: T,
) -> Result<(), Cause> {
    let sender = sender.ok_or(Cause::NeighbourEnded)?;
    select_biased! {
        recv(stop) -> _ => Err(Cause::NeighbourEnded),
        send(sender, (id, message)) -> sent => sent.map_err(|_| Cause::NeighbourEnded),
    }
}

fn receive<T>(
    receiver: &Receiver<(MicroBatchId, T)>,
    stop: &StopSignal,
    expected: MicroBatchId,
) -> Result<T, Cause> {
    let (found, message) = select_biased! {
        recv(stop) -> _ => Err(Cause::NeighbourEnded),
        recv(receiver) -> received => received.map_err(|_| Cause::NeighbourEnded),
    }?;
    if found == expected {
        Ok(message)
    } else {
        Err(Cause::OutOfOrder { expected, found })
    }
}
