//! Runs a schedule: one thread for each rank of each stage of each replica, links between
//! neighbours.
//!
//! - [`crew`] owns the threads. It hands each of them a job on its stage, watches them, and turns
//!   the first failure into one error;
//! - [`run`] is the job of a step: a stage's actions, one after the other;
//! - [`meeting`] is what it does where its ranks meet in the middle of one;
//! - [`reduction`] is what it does where its replicas meet at the end of a step, and [`sum`] what
//!   both share;
//! - [`window`] is what a stage does where it would wait, for the backward that [`upcoming`] finds;
//! - [`tally`] tells what of that was hidden, and [`tell`] passes it on to an [`observer`];
//! - [`position`] says where a thread is, and [`grid`] which one it is.
//!
//! Nothing here decides anything: order and transfers come from the schedule, and what may be
//! recomputed early is the stage's to know.

pub(crate) mod crew;
pub(crate) mod error;
pub(crate) mod grid;
mod meeting;
pub(crate) mod observer;
pub(crate) mod position;
mod reduction;
pub(crate) mod run;
pub(crate) mod sum;
mod tally;
mod tell;
mod upcoming;
mod window;
