//! Refuses costs that cannot be used, so that the engine need not look twice.
//!
//! At every instant before the end of a step some part of a pass, some message
//! or some latency is under way, and each is so once. So the step, and every
//! sum of times of one stage, is at most the sum of all of them: when that fits
//! its type, nothing overflows later. The same holds for the bytes of a stage.

use super::check_parts::{frees_no_more, known_parts};
use super::costs::{Ahead, Costs, ONE, Part, StageCosts};
use super::error::SimError;
use super::window::Window;
use crate::ids::{ChunkId, MicroBatchId, StageId};
use crate::plan::schedule::{Action, Schedule, ScheduleError, Shape, Unit};

/// Accepts costs that fit `schedule` and whose sums fit their types.
pub(super) fn check(schedule: &Schedule, costs: &Costs) -> Result<(), SimError> {
    let stages = schedule.stages.len();
    let micro_batches = schedule.micro_batches;
    if stages == 0 {
        return Err(ScheduleError::NoStages.into());
    }
    if micro_batches == 0 {
        return Err(ScheduleError::NoMicroBatches.into());
    }
    let shape = schedule.shape();
    if shape.chunks == 0 {
        return Err(ScheduleError::NoChunks.into());
    }
    let all = stages.saturating_mul(shape.chunks);
    if costs.stages.len() != all {
        return Err(SimError::StageCount {
            costs: costs.stages.len(),
            stages: all,
        });
    }
    if costs.links.len() != shape.links() {
        return Err(SimError::LinkCount {
            links: costs.links.len(),
            stages,
            expected: shape.links(),
        });
    }
    if !costs.sizes.is_empty() && costs.sizes.len() != micro_batches {
        return Err(SimError::SizeCount {
            sizes: costs.sizes.len(),
            micro_batches,
        });
    }
    for window in Window::ALL {
        let factor = costs.contention.factor(window);
        if !(0.0..=1.0).contains(&factor) {
            return Err(SimError::Contention { window, factor });
        }
    }
    for (index, costs) in costs.stages.iter().enumerate() {
        let chunk = ChunkId(index / stages);
        known_parts(StageId(index % stages), chunk, costs)?;
    }
    // A count from a file may be absurd; what is allocated for it is not.
    let units = micro_batches.saturating_mul(shape.chunks);
    for (stage, actions) in schedule.stages.iter().enumerate() {
        if actions.len() < units {
            let action = first_missing_forward(actions, shape.chunks);
            let stage = StageId(stage);
            return Err(ScheduleError::Missing { stage, action }.into());
        }
    }
    sums_fit(shape, costs, micro_batches)
}

/// A forward that `actions` does not have, among one more than they are.
fn first_missing_forward(actions: &[Action], chunks: usize) -> Action {
    let mut found = vec![false; actions.len() + 1];
    for action in actions {
        let before = action.micro_batch().0.checked_mul(chunks);
        let index = before.and_then(|before| before.checked_add(action.chunk().0));
        if let (Action::Forward(_), Some(index)) = (action, index)
            && action.chunk().0 < chunks
            && let Some(found) = found.get_mut(index)
        {
            *found = true;
        }
    }
    let missing = found.iter().position(|found| !found).unwrap_or(0);
    let unit = Unit::from(MicroBatchId(missing / chunks));
    Action::Forward(unit.on(ChunkId(missing % chunks)))
}

fn sums_fit(shape: Shape, costs: &Costs, micro_batches: usize) -> Result<(), SimError> {
    let ordinary = u128::from(ONE).saturating_mul(micro_batches as u128);
    let sizes = match costs.sizes.is_empty() {
        true => ordinary,
        false => costs.sizes.iter().map(|size| u128::from(*size)).sum(),
    };
    let of_all = |value: u128| value.saturating_mul(sizes) / u128::from(ONE);
    let mut time = 0u128;
    let mut bytes = vec![0u128; shape.stages];
    for (index, costs) in costs.stages.iter().enumerate() {
        let stage = StageId(index % shape.stages);
        let (of_passes, moving) = sums(costs);
        time = time.saturating_add(of_all(of_passes));
        time = time.saturating_add(u128::from(costs.reduction.0));
        let moving = of_all(moving).saturating_add(u128::from(costs.fixed.0));
        let bytes = &mut bytes[stage.0];
        *bytes = bytes.saturating_add(moving);
        if *bytes > i64::MAX as u128 {
            let bytes = *bytes;
            return Err(SimError::TooLarge { stage, bytes });
        }
        frees_no_more(stage, ChunkId(index / shape.stages), costs)?;
    }
    // Every chunk sends over the same link.
    let chunks = shape.chunks as u128;
    let channels = costs.links.iter();
    for channel in channels.flat_map(|link| [&link.forward, &link.backward]) {
        let wire = channel.bytes_per_second.map_or(0, |bandwidth| {
            let bytes = of_all(u128::from(channel.bytes.0)).saturating_mul(chunks);
            bytes.saturating_mul(1_000_000_000) / u128::from(bandwidth.get())
        });
        // Each message's time on the wire is rounded up.
        let each = u128::from(channel.latency.0).saturating_add(1);
        let messages = chunks.saturating_mul(micro_batches as u128);
        let waits = each.saturating_mul(messages);
        time = time.saturating_add(wire).saturating_add(waits);
    }
    match time > u128::from(u64::MAX) {
        true => Err(SimError::TooLong { nanos: time }),
        false => Ok(()),
    }
}

/// All times and all bytes of one chunk for an ordinary micro-batch, whatever
/// way its backward is done.
fn sums(costs: &StageCosts) -> (u128, u128) {
    let none: &[Part] = &[];
    let last = costs.cool_down.as_ref();
    let split = costs.split.as_ref();
    let lists = [
        &costs.forward[..],
        &costs.backward,
        split.map_or(none, |split| &split.input),
        split.map_or(none, |split| &split.weight),
        last.map_or(none, |last| &last.backward),
        last.and_then(|last| last.input.as_ref())
            .map_or(none, |input| input),
    ];
    let ahead = [
        costs.ahead,
        last.map_or(Ahead::default(), |last| last.ahead),
    ];
    let parts = lists.into_iter().flatten();
    let longest: u128 = parts.clone().map(longest).sum();
    let work = ahead.iter().map(|ahead| u128::from(ahead.work.0));
    let moving: u128 = parts
        .map(|part| u128::from(part.bytes().takes.0) + u128::from(part.bytes().frees.0))
        .sum();
    let made = ahead.iter().map(|ahead| u128::from(ahead.bytes.0));
    let (work, made): (u128, u128) = (work.sum(), made.sum());
    (longest.saturating_add(work), moving.saturating_add(made))
}

/// The time of a part if nothing of it is hidden.
fn longest(part: &Part) -> u128 {
    match part {
        Part::Compute { time, .. } | Part::Recompute { time, .. } => u128::from(time.0),
        Part::Collective {
            time, recompute, ..
        } => u128::from(time.0) + u128::from(recompute.0),
    }
}
