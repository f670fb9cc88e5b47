//! Random schedules and costs, small enough for the naive simulator.

use std::num::NonZeroU64;

use proptest::prelude::*;

use super::super::costs::{Ahead, ChannelCosts, Costs, LinkCosts, StageCosts, StageMemory};
use super::super::window::Window;
use super::{collective, compute, recompute};
use crate::ids::{MicroBatchId, StageId};
use crate::plan::cluster::Contention;
use crate::plan::schedule::transfers::{eager, rendezvous};
use crate::plan::schedule::{Action, Kind, Schedule};
use crate::units::{Bytes, Nanos};

/// Any sound order of computes, made by letting random stages go on.
fn any_order(p: usize, m: usize, mut choices: Vec<u8>) -> Schedule {
    let mut stages = vec![Vec::new(); p];
    let mut forwards = vec![0; p];
    let mut backwards = vec![0; p];
    loop {
        let mut moves = Vec::new();
        for s in 0..p {
            if forwards[s] < m && (s == 0 || forwards[s] < forwards[s - 1]) {
                moves.push((s, true));
            }
            let bound = if s + 1 == p {
                forwards[s]
            } else {
                backwards[s + 1]
            };
            if backwards[s] < bound {
                moves.push((s, false));
            }
        }
        if moves.is_empty() {
            break;
        }
        let choice = usize::from(choices.pop().unwrap_or(0));
        let (s, forward) = moves[choice % moves.len()];
        let count = if forward {
            &mut forwards[s]
        } else {
            &mut backwards[s]
        };
        let mb = MicroBatchId(*count);
        *count += 1;
        stages[s].push(if forward {
            Action::Forward(mb)
        } else {
            Action::Backward(mb)
        });
    }
    Schedule {
        micro_batches: m,
        stages,
    }
}

/// A sound schedule with transfers. With mailboxes it may still deadlock.
pub(super) fn schedules() -> impl Strategy<Value = Schedule> {
    let shape = (1usize..5, 1usize..6, 0usize..3, any::<bool>());
    let choices = prop::collection::vec(any::<u8>(), 40);
    (shape, choices).prop_map(|((p, m, kind, early), choices)| {
        let plain = match kind {
            0 => Kind::GPipe.generate(p, m).unwrap(),
            1 => Kind::OneFOneB.generate(p, m).unwrap(),
            _ => any_order(p, m, choices),
        };
        if early {
            eager(&plain)
        } else {
            rendezvous(&plain).unwrap()
        }
    })
}

fn stage() -> impl Strategy<Value = StageCosts> {
    let t = || prop_oneof![1 => Just(0u64), 4 => 0u64..7];
    let forward = (t(), t(), t(), t(), t());
    let backward = (t(), t(), t(), t(), t(), t());
    let ahead = (t(), t(), any::<[bool; 3]>());
    let memory = prop::array::uniform5(0u64..100);
    (forward, backward, ahead, memory).prop_map(|(f, b, ahead, memory)| StageCosts {
        forward: vec![
            compute("a", f.0),
            collective(Window::F1, f.1, f.2),
            compute("b", f.3),
            collective(Window::F2, f.4, f.2),
        ],
        backward: vec![
            compute("b", b.0),
            collective(Window::B1, b.1, b.2),
            recompute(b.3),
            collective(Window::B2, b.4, b.2),
            compute("a", b.5),
        ],
        ahead: Ahead {
            work: Nanos(ahead.0 + ahead.1),
            send: ahead.2[0],
            recv: ahead.2[1],
            bubble: ahead.2[2],
        },
        memory: StageMemory {
            fixed: Bytes(memory[0]),
            retained: Bytes(memory[1]),
            ahead: Bytes(memory[2]),
            recomputed: Bytes(memory[3]),
            workspace: Bytes(memory[4]),
        },
    })
}

fn channel() -> impl Strategy<Value = ChannelCosts> {
    let bandwidth = prop_oneof![Just(None), (200_000_000u64..2_000_000_000).prop_map(Some)];
    (0u64..6, 0u64..8, bandwidth).prop_map(|(latency, bytes, bandwidth)| ChannelCosts {
        latency: Nanos(latency),
        bytes: Bytes(bytes),
        bytes_per_second: bandwidth.and_then(NonZeroU64::new),
    })
}

/// Costs that fit this schedule.
pub(super) fn costs(p: usize, m: usize) -> impl Strategy<Value = Costs> {
    let stages = prop::collection::vec(stage(), p);
    let link = (channel(), channel());
    let links = prop::collection::vec(link, p - 1);
    // Exact in binary, so that files give them back.
    let share = prop_oneof![Just(64u8), 0u8..64].prop_map(|part| f64::from(part) / 64.0);
    let shares = (share.clone(), share.clone(), share);
    let sizes = prop_oneof![Just(vec![]), prop::collection::vec(0u32..2500, m)];
    let rest = (0usize..4, any::<bool>(), shares, sizes);
    (stages, links, rest).prop_map(|(stages, links, (capacity, blocking, shares, sizes))| {
        let link = |(forward, backward)| LinkCosts { forward, backward };
        Costs {
            stages,
            links: links.into_iter().map(link).collect(),
            mailbox_capacity: capacity,
            blocking_sends: blocking,
            contention: Contention::uniform(shares.0, shares.1, shares.2),
            sizes,
        }
    })
}

/// A schedule with costs for it.
pub(super) fn cases() -> impl Strategy<Value = (Schedule, Costs)> {
    schedules().prop_flat_map(|schedule| {
        let costs = costs(schedule.stages.len(), schedule.micro_batches);
        (Just(schedule), costs)
    })
}

/// Changes a stage's list at two places, most often for the worse.
pub(super) fn broken(mut schedule: Schedule, stage: usize, places: (usize, usize)) -> Schedule {
    let stage = StageId(stage % schedule.stages.len());
    let actions = &mut schedule.stages[stage.0];
    let (a, b) = (places.0 % actions.len(), places.1 % actions.len());
    match places.0 % 3 {
        0 => actions.swap(a, b),
        1 => drop(actions.remove(a)),
        _ => actions.insert(b, actions[a]),
    }
    schedule
}
