//! What a stage has done so far, micro-batch by micro-batch.
//!
//! A schedule is not trusted to have been validated: an action that comes twice,
//! or before what it needs, is caught when its turn comes, at the price of one
//! byte for each micro-batch of each stage.

use crate::ids::{MicroBatchId, StageId};
use crate::plan::schedule::{Action, ScheduleError};

/// The actions of one stage that are behind it.
pub(super) struct Done {
    stage: StageId,
    stages: usize,
    masks: Vec<u8>,
    backwards: usize,
}

fn bit(action: Action) -> u8 {
    match action {
        Action::Forward(_) => 1,
        Action::Backward(_) => 2,
        Action::SendForward(_) => 4,
        Action::RecvForward(_) => 8,
        Action::SendBackward(_) => 16,
        Action::RecvBackward(_) => 32,
    }
}

impl Done {
    pub(super) fn new(stage: StageId, stages: usize, micro_batches: usize) -> Self {
        Self {
            stage,
            stages,
            masks: vec![0; micro_batches],
            backwards: 0,
        }
    }

    pub(super) fn has(&self, action: Action) -> bool {
        let mask = self.masks.get(action.micro_batch().0);
        mask.is_some_and(|mask| mask & bit(action) != 0)
    }

    /// Refuses `action` if it is of no micro-batch, leads nowhere, was done
    /// before, or needs something that was not.
    pub(super) fn allow(&self, action: Action) -> Result<(), ScheduleError> {
        let stage = self.stage;
        let mb = action.micro_batch();
        if mb.0 >= self.masks.len() {
            return Err(ScheduleError::UnknownMicroBatch {
                stage,
                action,
                micro_batches: self.masks.len(),
            });
        }
        if !action.is_compute() && action.peer(stage, self.stages).is_none() {
            return Err(ScheduleError::NoNeighbour { stage, action });
        }
        if self.has(action) {
            return Err(ScheduleError::Repeated { stage, action });
        }
        let needs = match action {
            Action::Forward(_) => [Some(Action::RecvForward(mb)), None],
            Action::Backward(_) => [Some(Action::Forward(mb)), Some(Action::RecvBackward(mb))],
            Action::SendForward(_) => [Some(Action::Forward(mb)), None],
            Action::SendBackward(_) => [Some(Action::Backward(mb)), None],
            Action::RecvForward(_) | Action::RecvBackward(_) => [None, None],
        };
        let exists = |a: &Action| a.is_compute() || a.peer(stage, self.stages).is_some();
        let needs = needs.into_iter().flatten().filter(exists);
        match needs.into_iter().find(|need| !self.has(*need)) {
            Some(needs) => Err(ScheduleError::Order {
                stage,
                action,
                needs,
            }),
            None => Ok(()),
        }
    }

    /// Notes an action that was allowed.
    pub(super) fn note(&mut self, action: Action) {
        self.backwards += usize::from(matches!(action, Action::Backward(_)));
        if let Some(mask) = self.masks.get_mut(action.micro_batch().0) {
            *mask |= bit(action);
        }
    }

    /// Whether a backward was done.
    pub(super) fn trains(&self) -> bool {
        self.backwards > 0
    }

    /// At the end: refuses a micro-batch without a forward and, in training, one
    /// without a backward.
    pub(super) fn complete(&self, training: bool) -> Result<(), ScheduleError> {
        let kinds: [fn(MicroBatchId) -> Action; 2] = [Action::Forward, Action::Backward];
        let kinds = if training { &kinds[..] } else { &kinds[..1] };
        for mb in (0..self.masks.len()).map(MicroBatchId) {
            for kind in kinds {
                if !self.has(kind(mb)) {
                    return Err(ScheduleError::Missing {
                        stage: self.stage,
                        action: kind(mb),
                    });
                }
            }
        }
        Ok(())
    }
}
