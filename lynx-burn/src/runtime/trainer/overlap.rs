//! What stages recompute while they wait, from decisions to what each of them obeys.

use super::{BuildError, ScheduleSource};
use crate::ids::StageId;
use crate::plan::advance::Advance;
use crate::plan::partition::Partition;
use crate::plan::schedule::{Action, Kind};
use crate::runtime::stage::Ahead;
use crate::units::Bytes;

/// What a stage recomputes while it waits for a neighbour.
///
/// Gradients are the same to the last bit whatever is chosen; time and memory are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Nothing: all recompute is on demand.
    #[default]
    Never,
    /// What [`TrainerBuilder::ahead`](super::TrainerBuilder::ahead) allows.
    Planned,
    /// Whatever the next backward will need, within
    /// [`TrainerBuilder::memory_budget`](super::TrainerBuilder::memory_budget).
    Opportunistic,
}

/// What is to be recomputed while stages wait, as told.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) overlap: Overlap,
    pub(super) ahead: Option<Vec<Vec<Advance>>>,
    /// One for all stages, or one for each.
    pub(super) budgets: Vec<Bytes>,
}

impl Told {
    /// What each stage may recompute while it waits.
    pub(super) fn by_stage(&self, partition: &Partition) -> Result<Vec<Ahead>, BuildError> {
        let stages = partition.stages();
        match self.overlap {
            Overlap::Never => Ok(vec![Ahead::Never; stages]),
            Overlap::Opportunistic => match self.budgets[..] {
                [] => Ok(vec![Ahead::Opportunistic(None); stages]),
                [one] => Ok(vec![Ahead::Opportunistic(Some(one)); stages]),
                ref each if each.len() == stages => {
                    let each = each.iter().copied();
                    Ok(each.map(|one| Ahead::Opportunistic(Some(one))).collect())
                }
                ref other => Err(BuildError::Budgets {
                    given: other.len(),
                    stages,
                }),
            },
            Overlap::Planned => {
                let allowed = self.ahead.as_ref().ok_or(BuildError::NothingPlanned)?;
                if allowed.len() != stages {
                    return Err(BuildError::AheadStages {
                        given: allowed.len(),
                        stages,
                    });
                }
                for (stage, (allowed, range)) in allowed.iter().zip(partition.ranges()).enumerate()
                {
                    if allowed.len() != range.len() {
                        return Err(BuildError::AheadSegments {
                            stage: StageId(stage),
                            given: allowed.len(),
                            segments: range.len(),
                        });
                    }
                }
                Ok(allowed.iter().cloned().map(Ahead::Planned).collect())
            }
        }
    }
}

/// How many of a stage's last backwards are its cool-down: the planners' numbers for the kinds
/// they know. Otherwise, those that follow another one after the last forward.
pub(super) fn cool_down(source: &ScheduleSource, stages: usize, list: (usize, &[Action])) -> usize {
    let (stage, actions) = list;
    let all = actions.iter().filter(|action| action.makes_gradient());
    match source {
        ScheduleSource::Kind(Kind::GPipe) => all.count(),
        ScheduleSource::Kind(Kind::OneFOneB) => all.count().min(stages - 1 - stage),
        _ => {
            let backwards = actions
                .iter()
                .rev()
                .take_while(|action| !matches!(action, Action::Forward(_)))
                .filter(|action| action.makes_gradient());
            backwards.count().saturating_sub(1)
        }
    }
}
