//! Runs a schedule: one thread a stage, bounded mailboxes between neighbours.
//!
//! - [`crew`] owns the threads. It hands each of them a job on its stage, watches them, and turns
//!   the first failure into one error;
//! - [`mailbox`] carries boundaries one way and gradients the other;
//! - [`run`] is the job of a step: a stage's actions, one after the other;
//! - [`position`] says where a thread is.
//!
//! Nothing here decides anything: order and transfers come from the schedule.

pub(crate) mod crew;
pub(crate) mod error;
pub(crate) mod mailbox;
pub(crate) mod observer;
pub(crate) mod position;
pub(crate) mod run;
