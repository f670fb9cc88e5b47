//! Proves, before a thread starts, that a schedule is sound.
//!
//! Generators and passes are trusted to be right; schedules also come from
//! files, from people and from planners. All checks are about order and count:
//! what a schedule costs in time or bytes is the simulator's business.

use std::collections::HashMap;

use super::deadlock::run_to_completion;
use super::{Action, Schedule, ScheduleError};
use crate::ids::{MicroBatchId, StageId};

/// What a schedule must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How many messages a mailbox holds. There is one mailbox per channel, that
    /// is per direction between two neighbours. 0: a send completes only
    /// together with its receive.
    pub mailbox_capacity: usize,
    /// How many micro-batches a stage may hold.
    pub in_flight: InFlight,
    /// Whether there are backwards, as in training, or only forwards.
    pub backward: bool,
}

/// How many micro-batches a stage may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InFlight {
    /// As many as the step has.
    Unlimited,
    /// What 1F1B promises: stage `s` of `p` holds at most `min(m, p - s)`.
    OneFOneB,
}

/// What is known about a schedule that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Per stage, the most micro-batches it holds at once. A micro-batch counts
    /// from the start of its forward to the end of its backward; in a schedule
    /// that only runs forward, during its forward.
    pub peak_in_flight: Vec<usize>,
}

/// Accepts a schedule only if
/// - every stage runs each micro-batch forward once and, in training, backward
///   once after it, with backwards in ascending order, so that the order in
///   which gradients are added up is fixed;
/// - every boundary and gradient that must move is sent after it is made,
///   received before it is needed, once each, and never beyond the pipeline;
/// - both ends of a channel agree on the order of its transfers;
/// - no timing of the stages can deadlock with the given mailboxes;
/// - no stage holds more micro-batches than allowed.
pub fn validate(schedule: &Schedule, rules: &Rules) -> Result<Report, ScheduleError> {
    if schedule.stages.is_empty() {
        return Err(ScheduleError::NoStages);
    }
    if schedule.micro_batches == 0 {
        return Err(ScheduleError::NoMicroBatches);
    }
    for stage in (0..schedule.stages.len()).map(StageId) {
        let positions = known_once(schedule, stage, rules)?;
        complete_and_ordered(schedule, stage, rules, &positions)?;
    }
    channels_agree(schedule)?;
    run_to_completion(schedule, rules.mailbox_capacity)?;
    let stages = (0..schedule.stages.len()).map(StageId);
    let peaks = stages.map(|stage| peak_in_flight(schedule, stage, rules));
    Ok(Report {
        peak_in_flight: peaks.collect::<Result<_, _>>()?,
    })
}

/// Every action of `stage` makes sense there and occurs once; returns where.
fn known_once(
    schedule: &Schedule,
    stage: StageId,
    rules: &Rules,
) -> Result<HashMap<Action, usize>, ScheduleError> {
    let micro_batches = schedule.micro_batches;
    let mut positions = HashMap::new();
    for (position, &action) in schedule.stages[stage.0].iter().enumerate() {
        if action.micro_batch().0 >= micro_batches {
            return Err(ScheduleError::UnknownMicroBatch {
                stage,
                action,
                micro_batches,
            });
        }
        if !action.is_compute() && action.peer(stage, schedule.stages.len()).is_none() {
            return Err(ScheduleError::NoNeighbour { stage, action });
        }
        if !rules.backward && !action.is_forward() {
            return Err(ScheduleError::BackwardInForwardOnly { stage, action });
        }
        if positions.insert(action, position).is_some() {
            return Err(ScheduleError::Repeated { stage, action });
        }
    }
    Ok(positions)
}

/// Nothing is missing on `stage`, and what depends on each other is in order.
fn complete_and_ordered(
    schedule: &Schedule,
    stage: StageId,
    rules: &Rules,
    positions: &HashMap<Action, usize>,
) -> Result<(), ScheduleError> {
    let stages = schedule.stages.len();
    let position = |action| match positions.get(&action) {
        Some(position) => Ok(*position),
        None => Err(ScheduleError::Missing { stage, action }),
    };
    let ordered = |needs, action| match position(needs)? < position(action)? {
        true => Ok(()),
        false => Err(ScheduleError::Order {
            stage,
            action,
            needs,
        }),
    };
    // A count from a file may be absurd, but this ends at the first gap.
    for mb in 0..schedule.micro_batches {
        let forward = Action::Forward(MicroBatchId(mb));
        let backward = Action::Backward(MicroBatchId(mb));
        position(forward)?;
        let computes = [Some(forward), rules.backward.then_some(backward)];
        for compute in computes.into_iter().flatten() {
            if let Some(receive) = compute.input(stage, stages) {
                ordered(receive, compute)?;
            }
            if let Some(send) = compute.output(stage, stages) {
                ordered(compute, send)?;
            }
        }
        if rules.backward {
            ordered(forward, backward)?;
            if let Some(before) = mb.checked_sub(1) {
                ordered(Action::Backward(MicroBatchId(before)), backward)?;
            }
        }
    }
    Ok(())
}

/// Both ends of every channel list the same transfers in the same order.
fn channels_agree(schedule: &Schedule) -> Result<(), ScheduleError> {
    let stages = schedule.stages.len();
    for from in (0..stages).map(StageId) {
        for is_forward in [true, false] {
            let of_channel = |a: &Action| !a.is_compute() && a.is_forward() == is_forward;
            let sends = schedule.stages[from.0].iter().copied();
            let mut sends = sends.filter(|a| of_channel(a) && a.is_send()).peekable();
            let Some(to) = sends.peek().and_then(|send| send.peer(from, stages)) else {
                continue;
            };
            let receives = schedule.stages[to.0].iter().copied();
            let receives = receives.filter(|a| of_channel(a) && !a.is_send());
            // Equally many: each end was found to be complete and without repeats.
            for (position, (sent, received)) in sends.zip(receives).enumerate() {
                if sent.partner() != Some(received) {
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

fn peak_in_flight(
    schedule: &Schedule,
    stage: StageId,
    rules: &Rules,
) -> Result<usize, ScheduleError> {
    let limit = match rules.in_flight {
        InFlight::Unlimited => schedule.micro_batches,
        InFlight::OneFOneB => schedule.micro_batches.min(schedule.stages.len() - stage.0),
    };
    let mut held = 0;
    let mut peak = 0;
    for &action in &schedule.stages[stage.0] {
        match action {
            Action::Forward(_) => {
                held += 1;
                peak = peak.max(held);
                if held > limit {
                    return Err(ScheduleError::TooManyInFlight {
                        stage,
                        action,
                        held,
                        limit,
                    });
                }
                // Without a backward to come, nothing is kept.
                held -= usize::from(!rules.backward);
            }
            // Every forward comes before its backward here, so this stays above 0.
            Action::Backward(_) => held -= 1,
            _ => {}
        }
    }
    Ok(peak)
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
