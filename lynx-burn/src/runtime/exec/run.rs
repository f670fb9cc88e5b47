//! A stage's part in a step: its actions, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use burn::prelude::*;

use super::error::Cause;
use super::grid::Seat;
use super::meeting::Meeting;
use super::observer::Observer;
use super::position::{Activity, Position};
use super::reduction::reduce;
use super::tally::Waited;
use super::tell::Teller;
use super::upcoming::upcoming;
use super::window::Waiting;
use crate::ids::MicroBatchId;
use crate::plan::schedule::Action;
use crate::runtime::chain::{Chain, Mode};
use crate::runtime::comm::collective::Groups;
use crate::runtime::comm::ports::Ports;
use crate::runtime::gradient::Gradient;
use crate::runtime::parcel::Parcel;
use crate::runtime::stage::{Alone, PieceOutput, Ranks, Stage, StageReport, Upcoming};
use crate::runtime::streams::Fenced;

/// Gradients of a boundary's float tensors.
pub(crate) type Cotangents = Vec<Option<Gradient>>;

/// What one stage needs for a run.
pub(crate) struct Job<C: Chain> {
    pub(crate) seat: Seat,
    pub(crate) step: u64,
    pub(crate) mode: Mode,
    pub(crate) actions: Vec<Action>,
    /// The place among all replicas' micro-batches of this one's first.
    pub(crate) first: usize,
    /// How many of the last backwards are the cool-down.
    pub(crate) cool_down: usize,
    pub(crate) ports: Ports<Fenced<Parcel<C::Boundary>>, Fenced<Cotangents>>,
    /// Whom the worker sums with.
    pub(crate) groups: Groups,
    /// For the first stage.
    pub(crate) inputs: BTreeMap<MicroBatchId, Parcel<C::Boundary>>,
    /// For the last stage, each with the share of its loss in the step's.
    pub(crate) targets: BTreeMap<MicroBatchId, (C::Target, f64)>,
    pub(crate) position: Arc<Position>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// What one stage's part in a run yields.
pub(crate) struct Outcome<C: Chain> {
    /// The last stage's losses, by the place among all replicas' micro-batches.
    pub(crate) losses: BTreeMap<MicroBatchId, f64>,
    /// Boundaries that no stage received: the last stage's, where there were no targets.
    pub(crate) outputs: BTreeMap<MicroBatchId, Parcel<C::Boundary>>,
    pub(crate) report: StageReport,
    /// For the next run.
    pub(crate) groups: Groups,
}

/// What a stage holds between its actions.
struct Desk<C: Chain> {
    inputs: BTreeMap<MicroBatchId, Parcel<C::Boundary>>,
    targets: BTreeMap<MicroBatchId, (C::Target, f64)>,
    outputs: BTreeMap<MicroBatchId, Parcel<C::Boundary>>,
    cotangents: BTreeMap<MicroBatchId, Cotangents>,
    losses: BTreeMap<MicroBatchId, Tensor<1>>,
}

impl<C: Chain> Job<C> {
    /// Runs the actions.
    pub(crate) fn run(mut self, stage: &mut Stage<C>) -> Result<Outcome<C>, Cause> {
        let mut desk = Desk {
            inputs: std::mem::take(&mut self.inputs),
            targets: std::mem::take(&mut self.targets),
            outputs: BTreeMap::new(),
            cotangents: BTreeMap::new(),
            losses: BTreeMap::new(),
        };
        let mut teller = Teller::new(self.seat, self.step, self.observer.clone());
        stage.begin(self.step, self.first);
        let actions = std::mem::take(&mut self.actions);
        if actions.iter().any(|action| action.is_reduction()) {
            stage.keep_gradients_apart();
        }
        for (index, &action) in actions.iter().enumerate() {
            let begin = Instant::now();
            let waited = if action.is_compute() {
                self.position.action(action, Activity::Busy);
                self.compute(&actions[index..], stage, &mut desk, &mut teller)?;
                Waited::default()
            } else if action.is_reduction() {
                self.position.action(action, Activity::Busy);
                let group = self.groups.replicas.as_deref_mut();
                let group = group.ok_or(Cause::Missing(action))?;
                reduce(stage, group, &self.position)?;
                Waited::default()
            } else {
                self.position.action(action, Activity::Waiting);
                let next = stage
                    .works_ahead()
                    .then(|| upcoming(&actions[index..], self.cool_down))
                    .flatten();
                self.transfer(action, stage, &mut desk, next, &teller)?
            };
            teller.action(action, begin..Instant::now(), waited, stage);
        }
        // Read at the end only: on a device each read waits for the queue.
        let losses = desk.losses.into_iter();
        Ok(Outcome {
            losses: losses
                .map(|(id, loss)| {
                    let of_all = MicroBatchId(self.first + id.0);
                    (of_all, loss.into_scalar::<f64>())
                })
                .collect(),
            outputs: desk.outputs,
            report: stage.report(teller.times()),
            groups: self.groups,
        })
    }

    /// Runs the first of the actions that are left.
    fn compute(
        &mut self,
        left: &[Action],
        stage: &mut Stage<C>,
        desk: &mut Desk<C>,
        teller: &mut Teller,
    ) -> Result<(), Cause> {
        let Some((&action, after)) = left.split_first() else {
            return Ok(());
        };
        let mut alone = Alone;
        let mut meeting;
        let ranks: &mut dyn Ranks<C> = match self.groups.ranks.as_deref_mut() {
            None => &mut alone,
            Some(group) => {
                let works_ahead = stage.works_ahead();
                let upcoming = |left| upcoming(left, self.cool_down).filter(|_| works_ahead);
                // A forward under way is one of those that come before the next backward: what it
                // will add is not there yet.
                let is_backward = action.makes_gradient();
                let own = upcoming(left);
                meeting = Meeting {
                    group,
                    position: &self.position,
                    teller,
                    cool_down: is_backward && own.is_some_and(|own| own.cool_down),
                    next: match is_backward {
                        true => upcoming(after),
                        false => own,
                    },
                };
                &mut meeting
            }
        };
        let id = action.micro_batch();
        match action {
            Action::Forward(_) => {
                let input = desk.inputs.remove(&id).ok_or(Cause::Missing(action))?;
                let (target, share) = desk.targets.remove(&id).unzip();
                let output = match self.mode {
                    Mode::Training => stage.forward(id, input, target, ranks)?,
                    Mode::Evaluation => stage.infer(self.mode, id, input, target, ranks)?,
                };
                match output {
                    PieceOutput::Next(boundary) => {
                        desk.outputs.insert(id, boundary);
                    }
                    PieceOutput::Loss(loss) => {
                        let share = share.unwrap_or(1.0);
                        let seed = Tensor::<1>::full([1], share, (&loss.device(), loss.dtype()));
                        desk.cotangents.insert(id, vec![Some(Gradient::new(seed))]);
                        desk.losses.insert(id, loss);
                    }
                }
            }
            Action::Backward(_) => {
                let gradients = desk.cotangents.remove(&id).ok_or(Cause::Missing(action))?;
                let gradients = stage.backward(id, gradients, ranks)?;
                desk.cotangents.insert(id, gradients);
            }
            // Refused before a schedule comes here, or no computing.
            _ => return Err(Cause::Missing(action)),
        }
        Ok(())
    }

    fn transfer(
        &mut self,
        action: Action,
        stage: &mut Stage<C>,
        desk: &mut Desk<C>,
        next: Option<Upcoming>,
        teller: &Teller,
    ) -> Result<Waited, Cause> {
        let id = action.micro_batch();
        let mut waiting = Waiting {
            stage,
            position: &self.position,
            next,
        };
        let waited = match action {
            Action::RecvForward(_) => {
                let inlet = self.ports.receive_forward.as_deref_mut();
                let (boundary, waited) = waiting.receive(inlet, id)?;
                desk.inputs.insert(id, boundary.open());
                waited
            }
            Action::RecvBackward(_) => {
                let inlet = self.ports.receive_backward.as_deref_mut();
                let (gradients, waited) = waiting.receive(inlet, id)?;
                desk.cotangents.insert(id, gradients.open());
                waited
            }
            Action::SendForward(_) => {
                let boundary = desk.outputs.remove(&id).ok_or(Cause::Missing(action))?;
                let bytes = boundary.bytes();
                let boundary = Fenced::new(boundary, waiting.stage.device());
                let outlet = self.ports.send_forward.as_deref_mut();
                let (way, waited) = waiting.send(outlet, (id, bytes), boundary)?;
                teller.message(action, bytes, &way);
                waited
            }
            Action::SendBackward(_) => {
                let gradients = desk.cotangents.remove(&id).ok_or(Cause::Missing(action))?;
                let bytes = gradients.iter().flatten().map(Gradient::bytes).sum();
                let gradients = Fenced::new(gradients, waiting.stage.device());
                let outlet = self.ports.send_backward.as_deref_mut();
                let (way, waited) = waiting.send(outlet, (id, bytes), gradients)?;
                teller.message(action, bytes, &way);
                waited
            }
            // Not a transfer.
            _ => return Err(Cause::Missing(action)),
        };
        Ok(waited)
    }
}
