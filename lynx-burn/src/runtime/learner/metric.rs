//! What only a trainer knows of a step, as Burn's metrics.

use std::sync::Arc;

use burn::tensor::TensorReadError;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};

use crate::runtime::trainer::StepReport;

/// A number out of each step's [`StepReport`].
///
/// Register it with `metric_train_numeric`: an evaluation has no report.
#[derive(Clone)]
pub struct StepMetric {
    name: MetricName,
    unit: &'static str,
    higher_is_better: bool,
    read: fn(&StepReport) -> Option<f64>,
    state: NumericMetricState,
}

impl std::fmt::Debug for StepMetric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepMetric")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl StepMetric {
    /// Whatever `read` makes of a report; nothing where it makes none.
    #[must_use]
    pub fn new(name: &str, unit: &'static str, read: fn(&StepReport) -> Option<f64>) -> Self {
        Self {
            name: Arc::new(name.to_owned()),
            unit,
            higher_is_better: false,
            read,
            state: NumericMetricState::new(),
        }
    }

    /// The most bytes of boundaries and tapes that were kept at one time, summed over the stages, in
    /// MiB.
    #[must_use]
    pub fn retained() -> Self {
        Self::new("Retained", "MiB", |report| {
            Some(report.backward.retained_peak().0 as f64 / f64::from(1 << 20))
        })
    }

    /// Recompute that nothing hid, summed over the stages, in milliseconds.
    #[must_use]
    pub fn exposed() -> Self {
        Self::new("Exposed recompute", "ms", |report| {
            Some(report.backward.exposed().seconds() * 1e3)
        })
    }

    /// The share of recompute that waits hid, in per cent.
    #[must_use]
    pub fn hidden() -> Self {
        let metric = Self::new("Hidden recompute", "%", |report| {
            report.backward.hidden_fraction().map(|part| 100.0 * part)
        });
        Self {
            higher_is_better: true,
            ..metric
        }
    }

    /// Norm of the gradients before clipping; only with clipping.
    #[must_use]
    pub fn gradient_norm() -> Self {
        Self::new("Gradient norm", "", |report| report.update.gradient_norm)
    }

    fn options(&self) -> FormatOptions {
        let options = FormatOptions::new(self.name.clone()).precision(2);
        match self.unit {
            "" => options,
            unit => options.unit(unit),
        }
    }

    fn nothing(&self) -> SerializedEntry {
        SerializedEntry::not_available((!self.unit.is_empty()).then_some(self.unit))
    }

    /// Whether there was a number since the epoch began.
    fn seen(&self) -> bool {
        !self.state.final_value().current().is_nan()
    }
}

impl Metric for StepMetric {
    type Input = Option<StepReport>;

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: (!self.unit.is_empty()).then(|| self.unit.to_owned()),
            higher_is_better: self.higher_is_better,
        }
        .into()
    }

    fn update(
        &mut self,
        report: &Option<StepReport>,
        _: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        match report.as_ref().and_then(self.read) {
            Some(value) => {
                self.state.update(value, 1);
                Ok(self.state.compute_update(self.options()))
            }
            None => Ok(self.nothing()),
        }
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        match self.seen() {
            true => Ok(self.state.compute_final(self.options())),
            false => Ok(self.nothing()),
        }
    }

    fn clear(&mut self) {
        self.state.reset();
    }
}

impl Numeric for StepMetric {
    fn value(&self) -> Option<NumericEntry> {
        self.seen().then(|| self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        self.seen().then(|| self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}
