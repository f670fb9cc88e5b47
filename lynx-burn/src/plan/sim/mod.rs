//! How long a schedule takes and how much memory it needs, without running it.
//!
//! A planner compares schedules by what comes out here, and a person looks at
//! the pictures. The simulator exists because the *same* [`Schedule`] that the
//! executor obeys can be timed from [`Costs`] alone: every stage works off its
//! list, waits for messages, and passes messages on. Instants are whole
//! nanoseconds and nothing depends on the order of looking, so the same input
//! gives the same output to the last digit.
//!
//! It chooses nothing: the order of actions is the schedule's, what is
//! recomputed where is the costs'. It has no randomness, no threads and no
//! notion of how a segment computes. Compute, retention, transfers and windows
//! are modelled; caches, allocator fragmentation and mailboxes' own bytes are not.
//!
//! [`simulate`] gives the figures; [`record`] also keeps the [`Timeline`], from
//! which come the critical path, a [trace] and a [picture](svg).

mod ahead;
mod channel;
mod check;
mod check_parts;
pub mod costs;
mod critical;
mod engine;
mod error;
mod memory;
mod order;
mod parts;
mod pass;
mod recorder;
mod report;
pub mod svg;
pub mod timeline;
pub mod trace;
pub mod window;
mod worker;

pub use costs::Costs;
pub use critical::{PathKind, PathSpan, Place};
pub use error::SimError;
pub use report::{ChannelReport, Report, StageReport};
pub use timeline::{Cargo, Timeline};
pub use window::{PerWindow, Window};

use super::schedule::Schedule;

/// Times one step.
///
/// Schedules with several chunks for each stage and with split backwards are
/// timed too, the latter where the costs say what each part takes.
///
/// Takes time and memory proportional to the number of actions, of which it
/// keeps nothing. The schedule is checked on the way as strictly as timing
/// needs: an action that comes before what it depends on, a transfer that two
/// stages disagree about, one that is missing, and a deadlock are errors. The
/// order of backwards and the number in flight are left to
/// [`validate()`](super::schedule::validate()).
pub fn simulate(schedule: &Schedule, costs: &Costs) -> Result<Report, SimError> {
    engine::run(schedule, costs, &mut ())
}

/// Times one step and keeps every span of it: some 70 bytes for each part of a
/// pass, each wait and each message.
pub fn record(schedule: &Schedule, costs: &Costs) -> Result<(Report, Timeline), SimError> {
    let mut recording = recorder::Recording::new(schedule.shape());
    let report = engine::run(schedule, costs, &mut recording)?;
    Ok((report, recording.finish()))
}

#[cfg(test)]
mod tests;
