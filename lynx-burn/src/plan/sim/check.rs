//! Refuses costs that cannot be used, so that the engine need not look twice.
//!
//! At every instant before the end of a step some part of a pass, some message
//! or some latency is under way, and each is so once. So the step, and every
//! sum of times of one stage, is at most the sum of all of them: when that fits
//! its type, nothing overflows later. The same holds for the bytes of a stage.

use super::costs::{Ahead, Change, Costs, ONE, Part, StageCosts};
use super::error::SimError;
use super::window::{Window, is_of_backward, is_of_forward};
use crate::ids::{MicroBatchId, StageId};
use crate::plan::schedule::{Action, Schedule, ScheduleError};

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
    if costs.stages.len() != stages {
        return Err(SimError::StageCount {
            costs: costs.stages.len(),
            stages,
        });
    }
    if costs.links.len() != stages - 1 {
        return Err(SimError::LinkCount {
            links: costs.links.len(),
            stages,
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
    for (stage, costs) in costs.stages.iter().enumerate() {
        known_parts(StageId(stage), costs)?;
    }
    // A count from a file may be absurd; what is allocated for it is not.
    for (stage, actions) in schedule.stages.iter().enumerate() {
        if actions.len() < micro_batches {
            let action = first_missing_forward(actions);
            let stage = StageId(stage);
            return Err(ScheduleError::Missing { stage, action }.into());
        }
    }
    sums_fit(costs, micro_batches)
}

fn known_parts(stage: StageId, costs: &StageCosts) -> Result<(), SimError> {
    let windows = |parts: &[Part], pass, allowed: fn(Window) -> bool| {
        let mut collectives = parts.iter().filter_map(|part| match part {
            Part::Collective { window, .. } => Some(*window),
            Part::Compute { .. } | Part::Recompute { .. } => None,
        });
        match collectives.find(|window| !allowed(*window)) {
            Some(window) => Err(SimError::WrongWindow {
                stage,
                pass,
                window,
            }),
            None => Ok(()),
        }
    };
    windows(&costs.forward, "forward", is_of_forward)?;
    windows(&costs.backward, "backward", is_of_backward)?;
    if let Some(last) = &costs.cool_down {
        windows(&last.backward, "backward", is_of_backward)?;
    }
    let recompute = |part: &Part| matches!(part, Part::Recompute { .. });
    if costs.forward.iter().any(recompute) {
        return Err(SimError::RecomputeInForward { stage });
    }
    Ok(())
}

/// A forward that `actions` does not have, among one more than they are.
fn first_missing_forward(actions: &[Action]) -> Action {
    let mut found = vec![false; actions.len() + 1];
    for action in actions {
        if let Action::Forward(MicroBatchId(mb)) = action
            && let Some(found) = found.get_mut(*mb)
        {
            *found = true;
        }
    }
    let missing = found.iter().position(|found| !found).unwrap_or(0);
    Action::Forward(MicroBatchId(missing))
}

fn sums_fit(costs: &Costs, micro_batches: usize) -> Result<(), SimError> {
    let ordinary = u128::from(ONE).saturating_mul(micro_batches as u128);
    let sizes = match costs.sizes.is_empty() {
        true => ordinary,
        false => costs.sizes.iter().map(|size| u128::from(*size)).sum(),
    };
    let of_all = |value: u128| value.saturating_mul(sizes) / u128::from(ONE);
    let mut time = 0u128;
    for (stage, costs) in costs.stages.iter().enumerate() {
        let (cool_down, ahead) = match &costs.cool_down {
            Some(last) => (&last.backward[..], [costs.ahead, last.ahead]),
            None => (&[][..], [costs.ahead, Ahead::default()]),
        };
        let parts = costs.forward.iter().chain(&costs.backward);
        let parts = parts.chain(cool_down);
        let longest: u128 = parts.clone().map(longest).sum();
        let work = ahead.iter().map(|ahead| u128::from(ahead.work.0));
        time = time.saturating_add(of_all(longest.saturating_add(work.sum())));
        let bytes = parts.map(Part::bytes);
        let moving: u128 = bytes
            .map(|bytes| u128::from(bytes.takes.0) + u128::from(bytes.frees.0))
            .sum();
        let ahead = ahead.iter().map(|ahead| u128::from(ahead.bytes.0));
        let moving = of_all(moving.saturating_add(ahead.sum()));
        let bytes = u128::from(costs.fixed.0).saturating_add(moving);
        if bytes > i64::MAX as u128 {
            let stage = StageId(stage);
            return Err(SimError::TooLarge { stage, bytes });
        }
        frees_no_more(StageId(stage), costs)?;
    }
    let channels = costs.links.iter();
    for channel in channels.flat_map(|link| [&link.forward, &link.backward]) {
        let wire = channel.bytes_per_second.map_or(0, |bandwidth| {
            let bytes = of_all(u128::from(channel.bytes.0));
            bytes.saturating_mul(1_000_000_000) / u128::from(bandwidth.get())
        });
        // Each message's time on the wire is rounded up.
        let each = u128::from(channel.latency.0).saturating_add(1);
        let waits = each.saturating_mul(micro_batches as u128);
        time = time.saturating_add(wire).saturating_add(waits);
    }
    match time > u128::from(u64::MAX) {
        true => Err(SimError::TooLong { nanos: time }),
        false => Ok(()),
    }
}

/// No pass gives back what the micro-batch does not have by then.
fn frees_no_more(stage: StageId, costs: &StageCosts) -> Result<(), SimError> {
    let passes = |pass, before: u128, parts: &[Part]| {
        let mut held = before;
        for Change { takes, frees } in parts.iter().map(Part::bytes) {
            held += u128::from(takes.0);
            held = held
                .checked_sub(u128::from(frees.0))
                .ok_or(SimError::FreesMore { stage, pass })?;
        }
        Ok::<u128, SimError>(held)
    };
    let kept = passes("forward", 0, &costs.forward)?;
    let with = |ahead: Ahead| kept + u128::from(ahead.bytes.0);
    passes("backward", with(costs.ahead), &costs.backward)?;
    if let Some(last) = &costs.cool_down {
        passes("backward", with(last.ahead), &last.backward)?;
    }
    Ok(())
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
