//! How much a stage may hold at once.

use super::interleaved::warm_up;
use super::{Action, Rules, Schedule, ScheduleError};
use crate::ids::StageId;

/// How many micro-batches a stage may hold at once, one count for each chunk.
///
/// A unit, one micro-batch on one chunk, is held from the start of its forward
/// to the end of its backward; of a split one, to the end of the second part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InFlight {
    /// As many as the step has.
    Unlimited,
    /// What 1F1B promises: stage `s` of `p` holds at most `min(m, p - s)`.
    OneFOneB,
    /// What 1F1B promises after [`deepen`](super::deepen()) with these numbers:
    /// `min(m, p - s + extra[s])`.
    Deeper(Vec<usize>),
    /// What interleaved 1F1B promises: one unit more than the warm-up, which is
    /// `2 (p - s - 1) + (v - 1) p`. With one chunk, what 1F1B promises.
    Interleaved,
    /// What ZB-H1 promises: no stage holds more than 1F1B's worst, `min(m, p)`.
    ZbH1,
}

impl InFlight {
    /// The most units that `stage` may hold.
    pub fn limit(&self, schedule: &Schedule, stage: StageId) -> usize {
        let shape = schedule.shape();
        let all = schedule.micro_batches.saturating_mul(shape.chunks);
        let behind = shape.stages.saturating_sub(stage.0);
        let limit = match self {
            Self::Unlimited => all,
            Self::Interleaved if shape.chunks > 1 => warm_up(stage.0, shape).saturating_add(1),
            Self::OneFOneB | Self::Interleaved => behind,
            Self::Deeper(extra) => {
                let extra = extra.get(stage.0).copied().unwrap_or(0);
                behind.saturating_add(extra)
            }
            Self::ZbH1 => shape.stages,
        };
        all.min(limit)
    }
}

/// The most units that `stage` holds, in a schedule that is sound otherwise.
pub(super) fn peak(
    schedule: &Schedule,
    stage: StageId,
    rules: &Rules,
) -> Result<usize, ScheduleError> {
    let limit = rules.in_flight.limit(schedule, stage);
    let mut held = 0;
    let mut peak = 0;
    for &action in &schedule.stages[stage.0] {
        if let Action::Forward(_) = action {
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
        held -= usize::from(action.ends_backward());
    }
    Ok(peak)
}
