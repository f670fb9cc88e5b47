//! Random schedules and costs, small enough for the naive simulator.

use std::num::NonZeroU64;

use proptest::prelude::*;

use super::super::costs::{
    Ahead, ChannelCosts, CoolDown, Costs, LinkCosts, Part, Split, StageCosts,
};
use super::super::window::Window;
use super::orders::schedules;
use super::{collective, compute, moving, recompute};
use crate::ids::StageId;
use crate::plan::cluster::Contention;
use crate::plan::schedule::{Schedule, Shape};
use crate::units::{Bytes, Nanos};

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0u64), 4 => 0u64..7]
}

fn with_busy(mut part: Part, time: u64) -> Part {
    if let Part::Collective { busy, .. } = &mut part {
        *busy = Nanos(time);
    }
    part
}

/// A forward that keeps something, and how much.
fn forward() -> impl Strategy<Value = (Vec<Part>, u64)> {
    let times = prop::array::uniform5(time());
    let bytes = prop::array::uniform4(0u64..50);
    (times, bytes, 0u64..3).prop_map(|(t, [a, b, c, workspace], busy)| {
        let parts = vec![
            moving(compute("a", t[0]), a, 0),
            with_busy(collective(Window::F1, t[1], t[2]), busy),
            moving(compute("b", t[3]), b + workspace, workspace),
            moving(collective(Window::F2, t[4], t[2]), c, 0),
        ];
        (parts, a + b + c)
    })
}

/// A backward with what may be done ahead of it, after a forward that keeps so
/// much; and the same work in two parts, the first of which frees less.
fn backward(kept: u64) -> impl Strategy<Value = ([Vec<Part>; 3], Ahead)> {
    let times = prop::array::uniform6(time());
    let bytes = (prop::array::uniform4(0u64..50), 0..kept + 1);
    let ahead = (time(), time(), any::<[bool; 3]>());
    (times, bytes, ahead, 0u64..3).prop_map(|(t, (made, freed), ahead, busy)| {
        let parts = vec![
            moving(compute("b", t[0]), made[0], made[0] + freed),
            moving(
                with_busy(collective(Window::B1, t[1], t[2]), busy),
                made[1],
                made[1] / 2,
            ),
            moving(recompute(t[3]), made[2], 0),
            collective(Window::B2, t[4], t[2]),
            moving(compute("a", t[5]), 0, made[2] / 2),
        ];
        let [send, recv, bubble] = ahead.2;
        let ahead = Ahead {
            work: Nanos(ahead.0 + ahead.1),
            send,
            recv,
            bubble,
            bytes: Bytes(made[3]),
        };
        let input = parts[1..].to_vec();
        let weight = vec![
            moving(compute("w", t[0]), made[0], made[0] + freed),
            collective(Window::B1, t[1], 0),
        ];
        ([parts, input, weight], ahead)
    })
}

fn stage() -> impl Strategy<Value = StageCosts> {
    let always = (0u64..100, time());
    let forward = forward();
    (always, forward).prop_flat_map(|((fixed, reduction), (forward, kept))| {
        let last = prop::option::of((0usize..4, backward(kept)));
        (backward(kept), last).prop_map(move |((backward, ahead), last)| {
            let [backward, input, weight] = backward;
            StageCosts {
                forward: forward.clone(),
                backward,
                split: Some(Split { input, weight }),
                ahead,
                cool_down: last.map(|(backwards, ([backward, input, _], ahead))| CoolDown {
                    backwards,
                    backward,
                    input: Some(input),
                    ahead,
                }),
                fixed: Bytes(fixed),
                reduction: Nanos(reduction),
            }
        })
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
pub(super) fn costs(shape: Shape, m: usize) -> impl Strategy<Value = Costs> {
    let stages = prop::collection::vec(stage(), shape.stages * shape.chunks);
    let link = (channel(), channel());
    let links = match shape {
        Shape { stages: 1, .. } => 0,
        Shape { stages, chunks: 1 } => stages - 1,
        Shape { stages, .. } => stages,
    };
    let links = prop::collection::vec(link, links);
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
        let costs = costs(schedule.shape(), schedule.micro_batches);
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
