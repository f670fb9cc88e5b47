//! Refuses parts where they make no sense, and bytes that are freed but not there.

use super::costs::{Ahead, Change, Part, StageCosts};
use super::error::SimError;
use super::window::{Window, is_of_backward, is_of_forward};
use crate::ids::{ChunkId, StageId};

/// Every part stands where it can.
pub(super) fn known_parts(
    stage: StageId,
    chunk: ChunkId,
    costs: &StageCosts,
) -> Result<(), SimError> {
    let windows = |parts: &[Part], pass, allowed: fn(Window) -> bool| {
        let mut collectives = parts.iter().filter_map(|part| match part {
            Part::Collective { window, .. } => Some(*window),
            Part::Compute { .. } | Part::Recompute { .. } => None,
        });
        match collectives.find(|window| !allowed(*window)) {
            Some(window) => Err(SimError::WrongWindow {
                stage,
                chunk,
                pass,
                window,
            }),
            None => Ok(()),
        }
    };
    windows(&costs.forward, "forward", is_of_forward)?;
    windows(&costs.backward, "backward", is_of_backward)?;
    if let Some(split) = &costs.split {
        windows(&split.input, "backward", is_of_backward)?;
        windows(&split.weight, "backward", is_of_backward)?;
        let recomputes = |part: &Part| match part {
            Part::Compute { .. } => false,
            Part::Recompute { .. } => true,
            Part::Collective { recompute, .. } => recompute.0 > 0,
        };
        if split.weight.iter().any(recomputes) {
            return Err(SimError::RecomputeInWeight { stage, chunk });
        }
    }
    if let Some(last) = &costs.cool_down {
        windows(&last.backward, "backward", is_of_backward)?;
        let input = last.input.as_deref().unwrap_or_default();
        windows(input, "backward", is_of_backward)?;
    }
    let recompute = |part: &Part| matches!(part, Part::Recompute { .. });
    if costs.forward.iter().any(recompute) {
        return Err(SimError::RecomputeInForward { stage, chunk });
    }
    Ok(())
}

/// No pass gives back what the micro-batch does not have by then.
pub(super) fn frees_no_more(
    stage: StageId,
    chunk: ChunkId,
    costs: &StageCosts,
) -> Result<(), SimError> {
    let passes = |pass, before: u128, parts: &[Part]| {
        let mut held = before;
        for Change { takes, frees } in parts.iter().map(Part::bytes) {
            held += u128::from(takes.0);
            held = held
                .checked_sub(u128::from(frees.0))
                .ok_or(SimError::FreesMore { stage, chunk, pass })?;
        }
        Ok::<u128, SimError>(held)
    };
    let kept = passes("forward", 0, &costs.forward)?;
    let with = |ahead: Ahead| kept + u128::from(ahead.bytes.0);
    passes("backward", with(costs.ahead), &costs.backward)?;
    if let Some(last) = &costs.cool_down {
        passes("backward", with(last.ahead), &last.backward)?;
    }
    let Some(split) = &costs.split else {
        return Ok(());
    };
    let last = costs.cool_down.as_ref();
    let last = last.and_then(|last| Some((last.ahead, last.input.as_ref()?)));
    for (ahead, input) in [(costs.ahead, &split.input)].into_iter().chain(last) {
        let kept = passes("backward", with(ahead), input)?;
        passes("backward", kept, &split.weight)?;
    }
    Ok(())
}
