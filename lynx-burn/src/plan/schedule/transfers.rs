//! Passes that add sends and receives to the compute actions of a schedule.
//!
//! Where a transfer stands decides whether a stage blocks. Both passes first
//! drop the transfers that are already there, so they can be applied in any
//! order and more than once; neither moves a compute action.

use std::collections::HashMap;

use super::{Action, Schedule, ScheduleError, Waiting};
use crate::ids::StageId;

/// Sends right after the compute that makes the data, receives right before the
/// compute that needs it.
///
/// Data leaves as early as it can, so this is the order for mailboxes that hold
/// at least one message. With capacity 0 it can deadlock: in 1F1B a stage sends
/// a boundary down while its neighbour sends a gradient up, and both wait for
/// the other to receive. Use [`rendezvous`] there.
pub fn eager(schedule: &Schedule) -> Schedule {
    let stages = schedule.stages.len();
    let add = |(stage, actions): (usize, &Vec<Action>)| {
        let around = |compute: Action| {
            let receive = compute.input(StageId(stage), stages);
            let send = compute.output(StageId(stage), stages);
            receive.into_iter().chain([compute]).chain(send)
        };
        compute_only(actions).flat_map(around).collect()
    };
    Schedule {
        micro_batches: schedule.micro_batches,
        stages: schedule.stages.iter().enumerate().map(add).collect(),
    }
}

/// Transfers in an order that works even when a send only completes together
/// with its receive (capacity 0), and hence with any capacity.
///
/// The compute actions are laid out in time, a forward taking 1 and a backward
/// 2, each as early as its inputs and its stage allow. A transfer takes place
/// when its consumer is about to start, before computes that start at the same
/// time. That puts all computes and transfers into *one* global order, and every
/// stage gets the events it takes part in, in that order.
///
/// Why nothing can get stuck: take the first event of the global order that has
/// not happened. All earlier events have, so every stage taking part in it - one
/// for a compute, two for a transfer - stands exactly before it, and it can
/// happen. By induction all do. Each transfer is placed after its producer,
/// which ended by then and so started strictly earlier, and before its consumer.
pub fn rendezvous(schedule: &Schedule) -> Result<Schedule, ScheduleError> {
    let stages = schedule.stages.len();
    let mut events = Vec::new();
    for (time, stage, compute) in start_times(schedule)? {
        if let Some(receive) = compute.input(stage, stages) {
            events.push((time, false, stage, receive));
        }
        events.push((time, true, stage, compute));
    }
    // Stable: among transfers at one time, any order is as good, but it must be
    // the same every time.
    events.sort_by_key(|&(time, is_compute, stage, _)| (time, is_compute, stage));
    let mut projected = vec![Vec::new(); stages];
    for (_, _, stage, action) in events {
        if let (Some(peer), Some(send)) = (action.peer(stage, stages), action.partner()) {
            projected[peer.0].push(send);
        }
        projected[stage.0].push(action);
    }
    Ok(Schedule {
        micro_batches: schedule.micro_batches,
        stages: projected,
    })
}

fn compute_only(actions: &[Action]) -> impl Iterator<Item = Action> {
    actions.iter().copied().filter(|a| a.is_compute())
}

/// When every compute action starts, if each starts as early as it can.
fn start_times(schedule: &Schedule) -> Result<Vec<(u64, StageId, Action)>, ScheduleError> {
    let stages = schedule.stages.len();
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
                let needs = needs(StageId(stage), compute, stages);
                let Some(ready) = needs.map(|n| ends.get(&n).copied()).collect() else {
                    break;
                };
                let ready: Vec<u64> = ready;
                let start = ready.into_iter().fold(free_at[stage], u64::max);
                free_at[stage] = start + if compute.is_forward() { 1 } else { 2 };
                // Of a repeated action, which is refused later, the first counts.
                let end = ends.entry((StageId(stage), compute));
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
        let missing = needs(stage, action, stages).find(|need| !ends.contains_key(need));
        waiting.extend(missing.map(|(peer, awaits)| Waiting {
            stage,
            action,
            peer,
            awaits,
        }));
    }
    match waiting.is_empty() {
        true => Ok(starts),
        false => Err(ScheduleError::Circular { waiting }),
    }
}

/// What must have ended before `compute` can start on `stage`.
fn needs(
    stage: StageId,
    compute: Action,
    stages: usize,
) -> impl Iterator<Item = (StageId, Action)> {
    let input = compute.input(stage, stages);
    let peer = input.and_then(|receive| receive.peer(stage, stages));
    let own = match compute {
        Action::Backward(mb) => Some((stage, Action::Forward(mb))),
        _ => None,
    };
    // The neighbour does the same kind of work for the same micro-batch.
    peer.map(|peer| (peer, compute)).into_iter().chain(own)
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Schedule, ScheduleError, Waiting, forward_only};
    use super::{Action, compute_only, eager, rendezvous};
    use crate::ids::StageId;

    fn read(text: &str) -> Schedule {
        text.parse().unwrap()
    }

    #[test]
    fn eager_wraps_every_compute_in_its_transfers() {
        let schedule = eager(&forward_only(3, 1).unwrap());
        let expected = "schedule p=3 m=1\nstage 0: F0 SF0\nstage 1: RF0 F0 SF0\nstage 2: RF0 F0";
        assert_eq!(schedule, read(expected));
    }

    #[test]
    fn passes_keep_the_compute_order_and_replace_each_others_transfers() {
        for kind in [Kind::GPipe, Kind::OneFOneB] {
            for (p, m) in [(1, 3), (2, 1), (4, 7), (5, 3)] {
                let plain = kind.generate(p, m).unwrap();
                let (early, late) = (eager(&plain), rendezvous(&plain).unwrap());
                for with in [&early, &late] {
                    for (before, after) in plain.stages.iter().zip(&with.stages) {
                        assert_eq!(&compute_only(after).collect::<Vec<_>>(), before);
                    }
                }
                assert_eq!(eager(&late), early);
                assert_eq!(rendezvous(&early).unwrap(), late);
            }
        }
    }

    #[test]
    fn one_stage_needs_no_transfer() {
        let plain = Kind::OneFOneB.generate(1, 4).unwrap();
        assert_eq!(eager(&plain), plain);
        assert_eq!(rendezvous(&plain), Ok(plain));
    }

    #[test]
    fn a_circle_of_compute_actions_is_refused_with_everyone_in_it() {
        let circle = read("schedule p=2 m=2\nstage 0: F1 B0 F0 B1\nstage 1: F0 B0 F1 B1");
        let action = |word: &str| word.parse::<Action>().unwrap();
        let wait = |stage, at, peer, awaits| Waiting {
            stage: StageId(stage),
            action: action(at),
            peer: StageId(peer),
            awaits: action(awaits),
        };
        let waiting = vec![wait(0, "B0", 1, "B0"), wait(1, "F0", 0, "F0")];
        let error = ScheduleError::Circular { waiting };
        assert_eq!(rendezvous(&circle), Err(error.clone()));
        let words = "stage 0 at B0 waits for B0 of stage 1; stage 1 at F0 waits for F0 of stage 0";
        assert!(error.to_string().ends_with(words), "{error}");
    }

    #[test]
    fn a_compute_whose_input_nobody_makes_is_refused() {
        let missing = read("schedule p=2 m=1\nstage 0:\nstage 1: F0 B0");
        let error = rendezvous(&missing).unwrap_err();
        assert!(matches!(error, ScheduleError::Circular { .. }), "{error}");
        let early = read("schedule p=1 m=1\nstage 0: B0 F0");
        assert!(rendezvous(&early).is_err());
    }
}
