//! What a reduction needs, and whether all are done.

use super::Done;
use crate::ids::{ChunkId, MicroBatchId};
use crate::plan::schedule::{Action, ScheduleError, Unit};

impl Done {
    /// Refuses a reduction that is done again, or before some backward of its
    /// chunk has ended.
    #[cold]
    pub(super) fn may_reduce(&self, action: Action) -> Result<(), ScheduleError> {
        let (stage, chunk) = (self.stage, action.chunk());
        let last = MicroBatchId(self.micro_batches.saturating_sub(1));
        if action.micro_batch() != last {
            return Err(ScheduleError::ReducesTooSoon {
                stage,
                action,
                last,
            });
        }
        if self.reduced.contains(&chunk) {
            return Err(ScheduleError::Repeated { stage, action });
        }
        let units = (0..self.micro_batches).map(|mb| Unit::from(MicroBatchId(mb)).on(chunk));
        let ends = |unit| [Action::Backward(unit), Action::BackwardWeight(unit)];
        let open = units
            .map(ends)
            .find(|ends| !ends.iter().any(|end| self.has(*end)));
        match open {
            Some([needs, _]) => Err(ScheduleError::Order {
                stage,
                action,
                needs,
            }),
            None => Ok(()),
        }
    }

    /// Whether gradients were reduced.
    pub(in crate::plan::sim) fn reduces(&self) -> bool {
        !self.reduced.is_empty()
    }

    /// Refuses a chunk whose gradients are not reduced.
    pub(super) fn all_reduced(&self) -> Result<(), ScheduleError> {
        let mut all = (0..self.shape.chunks).map(ChunkId);
        match all.find(|chunk| !self.reduced.contains(chunk)) {
            None => Ok(()),
            Some(chunk) => {
                let last = MicroBatchId(self.micro_batches.saturating_sub(1));
                let action = Action::ReduceGradients(Unit::from(last).on(chunk));
                let stage = self.stage;
                Err(ScheduleError::Missing { stage, action })
            }
        }
    }
}
