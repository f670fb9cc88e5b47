//! What a step tells Burn's metrics.

use burn::prelude::*;
use burn::tensor::{DType, ExecutionError};
use burn::train::ItemLazy;
use burn::train::metric::{Adaptor, LossInput};

use crate::runtime::trainer::StepReport;

/// Of one step of training, or of the evaluation of one item.
#[derive(Clone, Debug)]
pub struct StepOutput {
    loss: f64,
    report: Option<StepReport>,
}

impl StepOutput {
    /// Of a step that a trainer took.
    pub(super) fn of_step(report: StepReport) -> Self {
        Self {
            loss: report.loss(),
            report: Some(report),
        }
    }

    /// Of an evaluation, or of a step that no trainer took.
    pub(super) fn of_loss(loss: f64) -> Self {
        Self { loss, report: None }
    }

    /// The mean loss, weighted.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// What the trainer reports; nothing of an evaluation, or where no trainer took the step.
    pub fn report(&self) -> Option<&StepReport> {
        self.report.as_ref()
    }
}

impl ItemLazy for StepOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}

impl Adaptor<LossInput> for StepOutput {
    fn adapt(&self) -> LossInput {
        // On the host and with all digits: the metric reads it back at once.
        LossInput::new(Tensor::from_data(
            TensorData::from([self.loss]),
            (&Device::flex(), DType::F64),
        ))
    }
}

impl Adaptor<Option<StepReport>> for StepOutput {
    fn adapt(&self) -> Option<StepReport> {
        self.report.clone()
    }
}
