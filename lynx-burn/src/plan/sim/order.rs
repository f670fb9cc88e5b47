//! What a stage has done so far, micro-batch by micro-batch.
//!
//! A schedule is not trusted to have been validated: an action that comes twice,
//! or before what it needs, is caught when its turn comes, at the price of one
//! byte for each micro-batch on each chunk of each stage.

mod reductions;

use crate::ids::{ChunkId, MicroBatchId, StageId};
use crate::plan::schedule::{Action, ScheduleError, Shape, Unit};

/// The actions of one stage that are behind it.
pub(super) struct Done {
    stage: StageId,
    shape: Shape,
    micro_batches: usize,
    /// One for each chunk of each micro-batch.
    masks: Vec<u8>,
    backwards: usize,
    /// The chunks whose gradients are reduced.
    reduced: Vec<ChunkId>,
}

const F: u8 = 1;
const B: u8 = 1 << 1;
const SF: u8 = 1 << 2;
const RF: u8 = 1 << 3;
const SB: u8 = 1 << 4;
const RB: u8 = 1 << 5;
const I: u8 = 1 << 6;
const W: u8 = 1 << 7;

fn bit(action: Action) -> u8 {
    match action {
        Action::Forward(_) => F,
        Action::Backward(_) => B,
        Action::SendForward(_) => SF,
        Action::RecvForward(_) => RF,
        Action::SendBackward(_) => SB,
        Action::RecvBackward(_) => RB,
        Action::BackwardInput(_) => I,
        Action::BackwardWeight(_) => W,
        // Once for a chunk, and kept there.
        Action::ReduceGradients(_) => 0,
    }
}

impl Done {
    /// For counts whose product was checked.
    pub(super) fn new(stage: StageId, shape: Shape, micro_batches: usize) -> Self {
        Self {
            stage,
            shape,
            micro_batches,
            masks: vec![0; micro_batches.saturating_mul(shape.chunks)],
            backwards: 0,
            reduced: Vec::new(),
        }
    }

    fn index(&self, unit: Unit) -> usize {
        let before = unit.micro_batch.0.saturating_mul(self.shape.chunks);
        before.saturating_add(unit.chunk.0)
    }

    fn mask(&self, unit: Unit) -> u8 {
        self.masks.get(self.index(unit)).copied().unwrap_or(0)
    }

    pub(super) fn has(&self, action: Action) -> bool {
        self.mask(action.unit()) & bit(action) != 0
    }

    /// Refuses `action` if it is of no micro-batch or chunk, leads nowhere, was
    /// done before, or needs something that was not. `leads` tells whether there
    /// is a stage at its other end.
    #[inline]
    pub(super) fn allow(&self, action: Action, leads: bool) -> Result<(), ScheduleError> {
        let (stage, shape, unit) = (self.stage, self.shape, action.unit());
        if unit.micro_batch.0 >= self.micro_batches {
            return Err(ScheduleError::UnknownMicroBatch {
                stage,
                action,
                micro_batches: self.micro_batches,
            });
        }
        if unit.chunk.0 >= shape.chunks {
            return Err(ScheduleError::UnknownChunk {
                stage,
                action,
                chunks: shape.chunks,
            });
        }
        if action.is_reduction() {
            return self.may_reduce(action);
        }
        if !action.is_compute() && !leads {
            return Err(ScheduleError::NoNeighbour { stage, action });
        }
        let mask = self.mask(unit);
        match shape.stages > 1 && self.is_ready(action, mask) {
            true => Ok(()),
            false => self.examine(action, mask),
        }
    }

    /// Whether nothing is wrong with an action on one of several stages, looked
    /// at all at once: it is asked for every action, what is wrong only once.
    fn is_ready(&self, action: Action, mask: u8) -> bool {
        let (chunk, shape) = (action.chunk().0, self.shape);
        let first = self.stage.0 == 0 && chunk == 0;
        let last = self.stage.0 + 1 == shape.stages && chunk + 1 == shape.chunks;
        let input = if first { 0 } else { RF };
        let gradient = if last { 0 } else { RB };
        let (excludes, needs) = match action {
            Action::Forward(_) => (F, input),
            Action::Backward(_) => (B | I | W, F | gradient),
            Action::BackwardInput(_) => (B | I | W, F | gradient),
            Action::BackwardWeight(_) => (B | W, I),
            Action::SendForward(_) => (SF, F),
            Action::SendBackward(_) if mask & I != 0 => (SB, I),
            Action::SendBackward(_) => (SB, B),
            Action::RecvForward(_) => (RF, 0),
            Action::RecvBackward(_) => (RB, 0),
            // Looked at elsewhere.
            Action::ReduceGradients(_) => (0, 0),
        };
        mask & excludes == 0 && mask & needs == needs
    }

    /// Says what is wrong with an action, if something is.
    #[cold]
    fn examine(&self, action: Action, mask: u8) -> Result<(), ScheduleError> {
        let (stage, unit) = (self.stage, action.unit());
        if mask & bit(action) != 0 {
            return Err(ScheduleError::Repeated { stage, action });
        }
        let whole = Action::Backward(unit);
        let parts = [Action::BackwardInput(unit), Action::BackwardWeight(unit)];
        let other = match action {
            Action::Backward(_) => parts.into_iter().find(|part| mask & bit(*part) != 0),
            Action::BackwardInput(_) | Action::BackwardWeight(_) => {
                (mask & bit(whole) != 0).then_some(action)
            }
            _ => None,
        };
        if let Some(part) = other {
            return Err(ScheduleError::WholeAndSplit { stage, whole, part });
        }
        match self.missing(action, mask) {
            Some(needs) => Err(ScheduleError::Order {
                stage,
                action,
                needs,
            }),
            None => Ok(()),
        }
    }

    /// What `action` needs first and was not done.
    fn missing(&self, action: Action, mask: u8) -> Option<Action> {
        let unit = action.unit();
        let not_done = |needs: &Action| mask & bit(*needs) == 0;
        match action {
            Action::Forward(_) => self.no_input(action, mask, |chunk| {
                let before = Action::Forward(unit.on(chunk));
                (!self.has(before)).then_some(before)
            }),
            Action::Backward(_) | Action::BackwardInput(_) => {
                let forward = Some(Action::Forward(unit)).filter(not_done);
                forward.or_else(|| {
                    self.no_input(action, mask, |chunk| self.no_gradient(unit.on(chunk)))
                })
            }
            Action::BackwardWeight(_) => Some(Action::BackwardInput(unit)).filter(not_done),
            Action::SendForward(_) => Some(Action::Forward(unit)).filter(not_done),
            Action::SendBackward(_) => self.no_gradient(unit),
            Action::RecvForward(_) | Action::RecvBackward(_) | Action::ReduceGradients(_) => None,
        }
    }

    /// The receive that a compute lacks or, where a stage is alone, the compute
    /// of the chunk that it hands its result to itself from.
    fn no_input(
        &self,
        compute: Action,
        mask: u8,
        alone: impl Fn(ChunkId) -> Option<Action>,
    ) -> Option<Action> {
        if self.shape.stages > 1 {
            let receive = compute.input(self.stage, self.shape)?;
            return (mask & bit(receive) == 0).then_some(receive);
        }
        let from = match compute.is_forward() {
            true => self.shape.before(self.stage, compute.chunk()),
            false => self.shape.after(self.stage, compute.chunk()),
        };
        from.and_then(|(_, chunk)| alone(chunk))
    }

    /// The backward of a unit, if nothing has made its gradient.
    fn no_gradient(&self, unit: Unit) -> Option<Action> {
        let kinds = [Action::BackwardInput(unit), Action::Backward(unit)];
        let made = kinds.into_iter().any(|kind| self.has(kind));
        (!made).then_some(Action::Backward(unit))
    }

    /// Notes an action that was allowed.
    pub(super) fn note(&mut self, action: Action) {
        self.backwards += usize::from(action.makes_gradient());
        if action.is_reduction() {
            self.reduced.push(action.chunk());
        }
        let index = self.index(action.unit());
        if let Some(mask) = self.masks.get_mut(index) {
            *mask |= bit(action);
        }
    }

    /// Whether a backward was done.
    pub(super) fn trains(&self) -> bool {
        self.backwards > 0
    }

    /// At the end: refuses a micro-batch without a forward and, in training, one
    /// without a backward or with half of one, on any chunk; and a chunk whose
    /// gradients are not reduced where those of others are.
    pub(super) fn complete(&self, training: bool, reduces: bool) -> Result<(), ScheduleError> {
        let chunks = self.shape.chunks;
        for (index, mask) in self.masks.iter().enumerate() {
            let unit = Unit::from(MicroBatchId(index / chunks)).on(ChunkId(index % chunks));
            let is_split = mask & bit(Action::BackwardInput(unit)) != 0;
            let end = match is_split {
                true => Action::BackwardWeight(unit),
                false => Action::Backward(unit),
            };
            let kinds = [Action::Forward(unit), end];
            let kinds = if training { &kinds[..] } else { &kinds[..1] };
            if let Some(&action) = kinds.iter().find(|kind| mask & bit(**kind) == 0) {
                let stage = self.stage;
                return Err(ScheduleError::Missing { stage, action });
            }
        }
        match reduces {
            true => self.all_reduced(),
            false => Ok(()),
        }
    }
}
