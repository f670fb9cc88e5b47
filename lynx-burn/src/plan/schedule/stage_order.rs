//! What has to be in the list of one stage, and in which order.

use std::collections::HashMap;

use super::{Action, Rules, Schedule, ScheduleError, Shape, Unit};
use crate::ids::{ChunkId, MicroBatchId, StageId};

/// Nothing is missing on `stage`, and what depends on each other is in order.
pub(super) fn complete_and_ordered(
    schedule: &Schedule,
    stage: StageId,
    rules: &Rules,
    positions: &HashMap<Action, usize>,
) -> Result<(), ScheduleError> {
    let list = List {
        stage,
        shape: schedule.shape(),
        positions,
    };
    // Counts from a file may be absurd, but this ends at the first gap.
    for mb in 0..schedule.micro_batches {
        for chunk in (0..schedule.chunks).map(ChunkId) {
            let unit = Unit::from(MicroBatchId(mb)).on(chunk);
            list.forward(unit)?;
            if rules.backward {
                list.backward(unit)?;
            }
        }
    }
    if rules.backward && rules.replicas > 1 {
        for chunk in (0..schedule.chunks).map(ChunkId) {
            let last = schedule.micro_batches.saturating_sub(1);
            list.reduction(Unit::from(MicroBatchId(last)).on(chunk))?;
        }
    }
    Ok(())
}

/// Where each action stands in the list of a stage.
struct List<'a> {
    stage: StageId,
    shape: Shape,
    positions: &'a HashMap<Action, usize>,
}

impl List<'_> {
    fn position(&self, action: Action) -> Result<usize, ScheduleError> {
        let stage = self.stage;
        let position = self.positions.get(&action).copied();
        position.ok_or(ScheduleError::Missing { stage, action })
    }

    fn ordered(&self, needs: Action, action: Action) -> Result<(), ScheduleError> {
        match self.position(needs)? < self.position(action)? {
            true => Ok(()),
            false => Err(ScheduleError::Order {
                stage: self.stage,
                action,
                needs,
            }),
        }
    }

    /// A compute stands between its transfers, if it has any.
    fn between_transfers(&self, compute: Action) -> Result<(), ScheduleError> {
        self.position(compute)?;
        if let Some(receive) = compute.input(self.stage, self.shape) {
            self.ordered(receive, compute)?;
        }
        if let Some(send) = compute.output(self.stage, self.shape) {
            self.ordered(compute, send)?;
        }
        Ok(())
    }

    fn forward(&self, unit: Unit) -> Result<(), ScheduleError> {
        let forward = Action::Forward(unit);
        self.between_transfers(forward)?;
        match self.shape.before(self.stage, unit.chunk) {
            // A stage that is alone hands the boundary to itself.
            Some((from, chunk)) if from == self.stage => {
                self.ordered(Action::Forward(unit.on(chunk)), forward)
            }
            _ => Ok(()),
        }
    }

    /// The action that makes the gradient of the unit's input, and the one that
    /// ends its backward: the same one if it is whole.
    fn ends(&self, unit: Unit) -> Result<(Action, Action), ScheduleError> {
        let whole = Action::Backward(unit);
        let parts = (Action::BackwardInput(unit), Action::BackwardWeight(unit));
        let is_there = |action| self.positions.contains_key(action);
        match [parts.0, parts.1].iter().find(|part| is_there(*part)) {
            Some(&part) if is_there(&whole) => Err(ScheduleError::WholeAndSplit {
                stage: self.stage,
                whole,
                part,
            }),
            Some(_) => Ok(parts),
            None => Ok((whole, whole)),
        }
    }

    /// Backwards are in ascending order, so behind the last one all are.
    fn reduction(&self, last: Unit) -> Result<(), ScheduleError> {
        let (_, end) = self.ends(last)?;
        self.ordered(end, Action::ReduceGradients(last))
    }

    fn backward(&self, unit: Unit) -> Result<(), ScheduleError> {
        let (input, end) = self.ends(unit)?;
        self.between_transfers(input)?;
        self.ordered(Action::Forward(unit), input)?;
        if input != end {
            self.ordered(input, end)?;
        }
        if let Some((from, chunk)) = self.shape.after(self.stage, unit.chunk)
            && from == self.stage
        {
            let (after, _) = self.ends(unit.on(chunk))?;
            self.ordered(after, input)?;
        }
        if let Some(before) = unit.micro_batch.0.checked_sub(1) {
            let before = Unit::from(MicroBatchId(before)).on(unit.chunk);
            let (input_before, end_before) = self.ends(before)?;
            self.ordered(input_before, input)?;
            self.ordered(end_before, end)?;
        }
        Ok(())
    }
}
