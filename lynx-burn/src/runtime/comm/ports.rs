//! All ends of links that one stage has.

use super::emulated::Emulated;
use super::link::{Inlet, Outlet};
use super::mailbox::{StopSignal, mailbox};
use super::speed::LinkSpeed;

/// What one stage sends to its neighbours and receives from them: boundaries one way, gradients
/// the other. Stages at the ends lack one side; the schedule's validator has made sure that they
/// do not use it.
pub(crate) struct Ports<F, B> {
    pub(crate) send_forward: Option<Box<dyn Outlet<F>>>,
    pub(crate) receive_forward: Option<Box<dyn Inlet<F>>>,
    pub(crate) send_backward: Option<Box<dyn Outlet<B>>>,
    pub(crate) receive_backward: Option<Box<dyn Inlet<B>>>,
}

/// Links `stages` stages by mailboxes that hold at most `capacity` messages each; at 0 a send waits
/// for its receive. With a speed, a message takes its time.
pub(crate) fn connect<F: Send + 'static, B: Send + 'static>(
    stages: usize,
    capacity: usize,
    speed: Option<LinkSpeed>,
    stop: &StopSignal,
) -> Vec<Ports<F, B>> {
    let mut ports: Vec<Ports<F, B>> = (0..stages)
        .map(|_| Ports {
            send_forward: None,
            receive_forward: None,
            send_backward: None,
            receive_backward: None,
        })
        .collect();
    for right in 1..stages {
        let (outlet, inlet) = link(capacity, speed, stop);
        ports[right - 1].send_forward = Some(outlet);
        ports[right].receive_forward = Some(inlet);
        let (outlet, inlet) = link(capacity, speed, stop);
        ports[right].send_backward = Some(outlet);
        ports[right - 1].receive_backward = Some(inlet);
    }
    ports
}

type Link<T> = (Box<dyn Outlet<T>>, Box<dyn Inlet<T>>);

fn link<T: Send + 'static>(
    capacity: usize,
    speed: Option<LinkSpeed>,
    stop: &StopSignal,
) -> Link<T> {
    let (outlet, inlet) = mailbox(capacity, stop);
    let outlet: Box<dyn Outlet<T>> = match speed {
        Some(speed) => Box::new(Emulated::new(outlet, speed)),
        None => Box::new(outlet),
    };
    (outlet, Box::new(inlet))
}
