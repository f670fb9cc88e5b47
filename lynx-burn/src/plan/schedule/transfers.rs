//! Passes that add sends and receives to the compute actions of a schedule.
//!
//! Where a transfer stands decides whether a stage blocks. Both passes first
//! drop the transfers that are already there, so they can be applied in any
//! order and more than once; neither moves a compute action.

use std::collections::HashMap;

use super::{Action, Schedule, ScheduleError, Shape, Waiting};
use crate::ids::StageId;

/// Sends right after the compute that makes the data, receives right before the
/// compute that needs it.
///
/// Data leaves as early as it can, so this is the order for mailboxes that hold
/// at least one message. With capacity 0 it can deadlock: in 1F1B a stage sends
/// a boundary down while its neighbour sends a gradient up, and both wait for
/// the other to receive. Use [`rendezvous`] there.
pub fn eager(schedule: &Schedule) -> Schedule {
    let shape = schedule.shape();
    let add = |(stage, actions): (usize, &Vec<Action>)| {
        let around = |compute: Action| {
            let receive = compute.input(StageId(stage), shape);
            let send = compute.output(StageId(stage), shape);
            receive.into_iter().chain([compute]).chain(send)
        };
        compute_only(actions).flat_map(around).collect()
    };
    let stages = schedule.stages.iter().enumerate();
    schedule.with_stages(stages.map(add).collect())
}

/// Transfers in an order that works even when a send only completes together
/// with its receive (capacity 0), and hence with any capacity.
///
/// The compute actions are laid out in time, a forward taking 1, a backward 2
/// and each part of a split one 1, each as early as its inputs and its stage allow. A transfer takes place
/// when its consumer is about to start, before computes that start at the same
/// time. That puts all computes and transfers into *one* global order, and every
/// stage gets the events it takes part in, in that order.
///
/// Why nothing can get stuck: take the first event of the global order that has
/// not happened. All earlier events have, so every stage taking part in it - one
/// for a compute, two for a transfer - stands exactly before it, and it can
/// happen. By induction all do. Each transfer is placed after its producer,
/// which ended by then and so started strictly earlier, and before its consumer.
///
/// # Errors
///
/// Where computes wait for each other in a circle or for what nobody makes.
pub fn rendezvous(schedule: &Schedule) -> Result<Schedule, ScheduleError> {
    let shape = schedule.shape();
    let mut events = Vec::new();
    for (time, stage, compute) in start_times(schedule)? {
        if let Some(receive) = compute.input(stage, shape) {
            events.push((time, false, stage, receive));
        }
        events.push((time, true, stage, compute));
    }
    // Stable: among transfers at one time, any order is as good, but it must be
    // the same every time.
    events.sort_by_key(|&(time, is_compute, stage, _)| (time, is_compute, stage));
    let mut projected = vec![Vec::new(); shape.stages];
    for (_, _, stage, action) in events {
        if let Some((peer, send)) = action.other_end(stage, shape) {
            projected[peer.0].push(send);
        }
        projected[stage.0].push(action);
    }
    Ok(schedule.with_stages(projected))
}

fn compute_only(actions: &[Action]) -> impl Iterator<Item = Action> {
    actions.iter().copied().filter(|a| a.is_compute())
}

/// When every compute action starts, if each starts as early as it can.
fn start_times(schedule: &Schedule) -> Result<Vec<(u64, StageId, Action)>, ScheduleError> {
    let shape = schedule.shape();
    let stages = shape.stages;
    let orders: Vec<Vec<_>> = schedule
        .stages
        .iter()
        .map(|actions| compute_only(actions).collect())
        .collect();
    let mut next = vec![0; stages];
    let mut free_at = vec![0; stages];
    let mut ends: HashMap<(StageId, Action), u64> = HashMap::new();
    let mut starts = Vec::new();
    loop {
        let done = starts.len();
        // The sweep's order does not matter: a start depends on ends only.
        for stage in 0..stages {
            while let Some(&compute) = orders[stage].get(next[stage]) {
                let needs = needs(StageId(stage), compute, shape);
                let Some(ready) = needs.map(|n| ends.get(&n).copied()).collect() else {
                    break;
                };
                let ready: Vec<u64> = ready;
                let start = ready.into_iter().fold(free_at[stage], u64::max);
                free_at[stage] = start + time(compute);
                // Of a repeated action, which is refused later, the first counts.
                let end = ends.entry((StageId(stage), result(compute)));
                end.or_insert(free_at[stage]);
                starts.push((start, StageId(stage), compute));
                next[stage] += 1;
            }
        }
        if starts.len() == done {
            break;
        }
    }
    let mut waiting = Vec::new();
    for (stage, order) in orders.iter().enumerate() {
        let Some(&action) = order.get(next[stage]) else {
            continue;
        };
        let stage = StageId(stage);
        let missing = needs(stage, action, shape).find(|need| !ends.contains_key(need));
        waiting.extend(missing.map(|(peer, awaits)| Waiting {
            stage,
            action,
            peer,
            awaits: as_written(awaits, orders.get(peer.0)),
        }));
    }
    match waiting.is_empty() {
        true => Ok(starts),
        false => Err(ScheduleError::Circular { waiting }),
    }
}

fn time(compute: Action) -> u64 {
    match compute {
        Action::Backward(_) => 2,
        _ => 1,
    }
}

/// Whoever waits for a gradient does not care whether it comes from a whole
/// backward or from the first part of one.
fn result(compute: Action) -> Action {
    match compute {
        Action::BackwardInput(unit) => Action::Backward(unit),
        other => other,
    }
}

/// The action in a stage's list that has this result.
fn as_written(wanted: Action, order: Option<&Vec<Action>>) -> Action {
    let mut order = order.into_iter().flatten();
    let found = order.find(|compute| result(**compute) == wanted);
    found.copied().unwrap_or(wanted)
}

/// What must have ended before `compute` can start on `stage`, by result.
fn needs(stage: StageId, compute: Action, shape: Shape) -> impl Iterator<Item = (StageId, Action)> {
    let unit = compute.unit();
    let (own, other) = match compute {
        // The boundary comes from the chunk before, on this stage or another.
        Action::Forward(_) => {
            let before = shape.before(stage, unit.chunk);
            let made = |(from, chunk)| (from, Action::Forward(unit.on(chunk)));
            (None, before.map(made))
        }
        Action::Backward(_) | Action::BackwardInput(_) => {
            let after = shape.after(stage, unit.chunk);
            let made = |(from, chunk)| (from, Action::Backward(unit.on(chunk)));
            (Some(Action::Forward(unit)), after.map(made))
        }
        Action::BackwardWeight(_) => (Some(Action::Backward(unit)), None),
        _ => (None, None),
    };
    other.into_iter().chain(own.map(|own| (stage, own)))
}

#[cfg(test)]
#[path = "transfers_tests.rs"]
mod tests;
