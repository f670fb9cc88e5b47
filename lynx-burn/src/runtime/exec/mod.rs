//! Runs a schedule: one thread a stage, links between neighbours.
//!
//! - [`crew`] owns the threads. It hands each of them a job on its stage, watches them, and turns
//!   the first failure into one error;
//! - [`run`] is the job of a step: a stage's actions, one after the other;
//! - [`meeting`] is what it does where its ranks meet in the middle of one;
//! - [`window`] is what a stage does where it would wait, for the backward that [`upcoming`] finds;
//! - [`tally`] tells what of that was hidden, and [`tell`] passes it on to an [`observer`];
//! - [`position`] says where a thread is.
//!
//! Nothing here decides anything: order and transfers come from the schedule, and what may be
//! recomputed early is the stage's to know.

pub(crate) mod crew;
pub(crate) mod error;
mod meeting;
pub(crate) mod observer;
pub(crate) mod position;
pub(crate) mod run;
mod tally;
mod tell;
mod upcoming;
mod window;
