//! A stage's part in a step: its actions, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use burn::prelude::*;

use super::error::Cause;
use super::mailbox::Mailboxes;
use super::observer::{ActionSpan, Observer};
use super::position::{Activity, Position};
use crate::ids::{MicroBatchId, StageId};
use crate::plan::schedule::Action;
use crate::runtime::chain::{Chain, Mode};
use crate::runtime::gradient::Gradient;
use crate::runtime::parcel::Parcel;
use crate::runtime::stage::{PieceOutput, Stage, StageReport};

/// Gradients of a boundary's float tensors.
pub(crate) type Cotangents = Vec<Option<Gradient>>;

/// What one stage needs for a run.
pub(crate) struct Job<C: Chain> {
    pub(crate) stage: StageId,
    pub(crate) step: u64,
    pub(crate) mode: Mode,
    pub(crate) actions: Vec<Action>,
    pub(crate) mailboxes: Mailboxes<Parcel<C::Boundary>, Cotangents>,
    /// For the first stage.
    pub(crate) inputs: BTreeMap<MicroBatchId, Parcel<C::Boundary>>,
    /// For the last stage, each with the share of its loss in the step's.
    pub(crate) targets: BTreeMap<MicroBatchId, (C::Target, f64)>,
    pub(crate) position: Arc<Position>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// What one stage's part in a run yields.
pub(crate) struct Outcome<C: Chain> {
    /// The last stage's losses.
    pub(crate) losses: BTreeMap<MicroBatchId, f64>,
    /// Boundaries that no stage received: the last stage's, where there were no targets.
    pub(crate) outputs: BTreeMap<MicroBatchId, Parcel<C::Boundary>>,
    pub(crate) report: StageReport,
}

impl<C: Chain> Job<C> {
    /// Runs the actions.
    pub(crate) fn run(mut self, stage: &mut Stage<C>) -> Result<Outcome<C>, Cause> {
        let mut outputs: BTreeMap<MicroBatchId, Parcel<C::Boundary>> = BTreeMap::new();
        let mut cotangents: BTreeMap<MicroBatchId, Cotangents> = BTreeMap::new();
        let mut losses: BTreeMap<MicroBatchId, Tensor<1>> = BTreeMap::new();
        let shares: BTreeMap<MicroBatchId, f64> = self
            .targets
            .iter()
            .map(|(&id, &(_, share))| (id, share))
            .collect();
        stage.begin(self.step);
        for action in std::mem::take(&mut self.actions) {
            let begin = Instant::now();
            let activity = if action.is_compute() {
                Activity::Busy
            } else {
                Activity::Waiting
            };
            self.position.action(action, activity);
            let id = action.micro_batch();
            match action {
                Action::RecvForward(_) => {
                    let boundary = self.mailboxes.receive_forward(id)?;
                    self.inputs.insert(id, boundary);
                }
                Action::Forward(_) => {
                    let input = self.inputs.remove(&id).ok_or(Cause::Missing(action))?;
                    let target = self.targets.remove(&id).map(|(target, _)| target);
                    let output = match self.mode {
                        Mode::Training => stage.forward(id, input, target)?,
                        Mode::Evaluation => stage.infer(self.mode, id, input, target),
                    };
                    match output {
                        PieceOutput::Next(boundary) => {
                            outputs.insert(id, boundary);
                        }
                        PieceOutput::Loss(loss) => {
                            let share = shares.get(&id).copied().unwrap_or(1.0);
                            let seed =
                                Tensor::<1>::full([1], share, (&loss.device(), loss.dtype()));
                            cotangents.insert(id, vec![Some(Gradient::new(seed))]);
                            losses.insert(id, loss);
                        }
                    }
                }
                Action::SendForward(_) => {
                    let boundary = outputs.remove(&id).ok_or(Cause::Missing(action))?;
                    self.mailboxes.send_forward(id, boundary)?;
                }
                Action::RecvBackward(_) => {
                    let gradients = self.mailboxes.receive_backward(id)?;
                    cotangents.insert(id, gradients);
                }
                Action::Backward(_) => {
                    let gradients = cotangents.remove(&id).ok_or(Cause::Missing(action))?;
                    let gradients = stage.backward(id, gradients)?;
                    cotangents.insert(id, gradients);
                }
                Action::SendBackward(_) => {
                    let gradients = cotangents.remove(&id).ok_or(Cause::Missing(action))?;
                    self.mailboxes.send_backward(id, gradients)?;
                }
                // Refused before a schedule comes here.
                Action::BackwardInput(_) | Action::BackwardWeight(_) => {
                    return Err(Cause::Missing(action));
                }
            }
            if let Some(observer) = &self.observer {
                observer.action(&ActionSpan {
                    step: self.step,
                    stage: self.stage,
                    action,
                    begin,
                    end: Instant::now(),
                    in_flight: stage.in_flight(),
                    retained: stage.retained(),
                });
            }
        }
        // Read at the end only: on a device each read waits for the queue.
        let losses = losses
            .into_iter()
            .map(|(id, loss)| (id, loss.into_scalar::<f64>()))
            .collect();
        Ok(Outcome {
            losses,
            outputs,
            report: stage.report(),
        })
    }
}
