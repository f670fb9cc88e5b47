//! Proves, before a thread starts, that a schedule is sound.
//!
//! Generators and passes are trusted to be right; schedules also come from
//! files, from people and from planners. All checks are about order and count:
//! what a schedule costs in time or bytes is the simulator's business.

use std::collections::HashMap;

use super::deadlock::run_to_completion;
use super::in_flight::{self, InFlight};
use super::stage_order::complete_and_ordered;
use super::{Action, Schedule, ScheduleError};
use crate::ids::{MicroBatchId, StageId};

/// What a schedule must satisfy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How many messages a mailbox holds. There is one mailbox per channel, that
    /// is per direction between two neighbours. 0: a send completes only
    /// together with its receive.
    pub mailbox_capacity: usize,
    /// How many micro-batches a stage may hold.
    pub in_flight: InFlight,
    /// Whether there are backwards, as in training, or only forwards.
    pub backward: bool,
    /// How many replicas of the pipeline run the schedule, each on its own
    /// micro-batches. With more than one, gradients have to be reduced.
    pub replicas: usize,
}

/// What is known about a schedule that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Per stage, the most micro-batches it holds at once, counted once for
    /// each chunk. One counts from the start of its forward to the end of its
    /// backward, of both parts if it has two; in a schedule that only runs
    /// forward, during its forward.
    pub peak_in_flight: Vec<usize>,
}

/// Accepts a schedule only if
/// - every stage runs each micro-batch on each chunk forward once and, in
///   training, backward once after it, whole or in two parts, the gradient of
///   the input before those of the weights;
/// - the backwards of a chunk, and both parts of split ones, are in ascending
///   order, so that the order in which gradients are added up is fixed;
/// - every boundary and gradient that must move is sent after it is made,
///   received before it is needed, once each, and never beyond the pipeline;
/// - the gradients of every chunk are reduced once, after its last backward, if
///   there are several replicas to train, and never if there is one;
/// - both ends of a channel agree on the order of its transfers;
/// - no timing of the stages can deadlock with the given mailboxes;
/// - no stage holds more micro-batches than allowed.
///
/// # Errors
///
/// The first of these that does not hold, with stage and action.
pub fn validate(schedule: &Schedule, rules: &Rules) -> Result<Report, ScheduleError> {
    if schedule.stages.is_empty() {
        return Err(ScheduleError::NoStages);
    }
    if schedule.micro_batches == 0 {
        return Err(ScheduleError::NoMicroBatches);
    }
    if schedule.chunks == 0 {
        return Err(ScheduleError::NoChunks);
    }
    for stage in (0..schedule.stages.len()).map(StageId) {
        let positions = known_once(schedule, stage, rules)?;
        complete_and_ordered(schedule, stage, rules, &positions)?;
    }
    channels_agree(schedule)?;
    run_to_completion(schedule, rules.mailbox_capacity)?;
    let stages = (0..schedule.stages.len()).map(StageId);
    let peaks = stages.map(|stage| in_flight::peak(schedule, stage, rules));
    Ok(Report {
        peak_in_flight: peaks.collect::<Result<_, _>>()?,
    })
}

/// Accepts a schedule only if the executor can carry it out: it holds one chunk
/// on each stage and runs every backward whole.
///
/// # Errors
///
/// If there are more chunks, or a backward is split.
pub fn executable(schedule: &Schedule) -> Result<(), ScheduleError> {
    if schedule.chunks != 1 {
        let chunks = schedule.chunks;
        return Err(ScheduleError::ChunksNotExecutable { chunks });
    }
    for (stage, actions) in schedule.stages.iter().enumerate() {
        if let Some(&action) = actions.iter().find(|action| action.is_split()) {
            let stage = StageId(stage);
            return Err(ScheduleError::SplitNotExecutable { stage, action });
        }
    }
    Ok(())
}

/// Every action of `stage` makes sense there and occurs once; returns where.
fn known_once(
    schedule: &Schedule,
    stage: StageId,
    rules: &Rules,
) -> Result<HashMap<Action, usize>, ScheduleError> {
    let micro_batches = schedule.micro_batches;
    let shape = schedule.shape();
    let mut positions = HashMap::new();
    for (position, &action) in schedule.stages[stage.0].iter().enumerate() {
        if action.micro_batch().0 >= micro_batches {
            return Err(ScheduleError::UnknownMicroBatch {
                stage,
                action,
                micro_batches,
            });
        }
        if action.chunk().0 >= shape.chunks {
            return Err(ScheduleError::UnknownChunk {
                stage,
                action,
                chunks: shape.chunks,
            });
        }
        if action.is_transfer() && action.peer(stage, shape).is_none() {
            return Err(ScheduleError::NoNeighbour { stage, action });
        }
        if !rules.backward && !action.is_forward() {
            return Err(ScheduleError::BackwardInForwardOnly { stage, action });
        }
        if action.is_reduction() && rules.replicas < 2 {
            return Err(ScheduleError::NobodyToReduceWith { stage, action });
        }
        if action.is_reduction() && action.micro_batch().0 + 1 != micro_batches {
            let last = MicroBatchId(micro_batches - 1);
            return Err(ScheduleError::ReducesTooSoon {
                stage,
                action,
                last,
            });
        }
        if positions.insert(action, position).is_some() {
            return Err(ScheduleError::Repeated { stage, action });
        }
    }
    Ok(positions)
}

/// Both ends of every channel list the same transfers in the same order.
fn channels_agree(schedule: &Schedule) -> Result<(), ScheduleError> {
    let shape = schedule.shape();
    for from in (0..shape.stages).map(StageId) {
        for is_forward in [true, false] {
            let of_channel = |a: &Action| a.is_transfer() && a.is_forward() == is_forward;
            let sends = schedule.stages[from.0].iter().copied();
            let mut sends = sends.filter(|a| of_channel(a) && a.is_send()).peekable();
            let Some(to) = sends.peek().and_then(|send| send.peer(from, shape)) else {
                continue;
            };
            let receives = schedule.stages[to.0].iter().copied();
            let receives = receives.filter(|a| of_channel(a) && !a.is_send());
            // Equally many: each end was found to be complete and without repeats.
            for (position, (sent, received)) in sends.zip(receives).enumerate() {
                if sent.partner(from, shape) != Some(received) {
                    return Err(ScheduleError::ChannelOrder {
                        from,
                        to,
                        position,
                        sent,
                        received,
                    });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
