//! What Burn's event store and renderer are told, for tests to read.

use std::sync::{Arc, Mutex};

use burn::train::Interrupter;
use burn::train::logger::{EvaluationProgressLogger, MetricLogger, TrainingProgressLogger};
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split};
use burn::train::metric::{MetricDefinition, NumericEntry};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

/// One value of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) epoch: usize,
    pub(crate) split: &'static str,
    /// The metric's name.
    pub(crate) metric: String,
    pub(crate) value: f64,
}

/// All values that the event store logs, batch by batch.
#[derive(Clone, Default)]
pub(crate) struct Log {
    entries: Arc<Mutex<Vec<Entry>>>,
    names: Vec<MetricDefinition>,
}

impl Log {
    /// The values of a metric in a split, over all epochs.
    pub(crate) fn values(&self, metric: &str, split: &str) -> Vec<f64> {
        let entries = self.entries.lock().expect("whole");
        let wanted = entries
            .iter()
            .filter(|entry| (entry.metric.as_str(), entry.split) == (metric, split));
        wanted.map(|entry| entry.value).collect()
    }

    /// The epochs of which something is logged.
    pub(crate) fn epochs(&self) -> Vec<usize> {
        let entries = self.entries.lock().expect("whole");
        let mut epochs: Vec<usize> = entries.iter().map(|entry| entry.epoch).collect();
        epochs.dedup();
        epochs
    }
}

impl MetricLogger for Log {
    fn log(&mut self, update: MetricsUpdate, epoch: usize, split: &Split) {
        for numeric in update.entries_numeric {
            let entry = NumericEntry::deserialize(&numeric.entry.serialized_entry.serialized);
            // Of a whole epoch, or of a batch without a value.
            let Ok(NumericEntry::Aggregated {
                aggregated_value, ..
            }) = entry
            else {
                continue;
            };
            let id = &numeric.entry.metric_id;
            let known = self.names.iter().find(|known| known.metric_id == *id);
            self.entries.lock().expect("whole").push(Entry {
                epoch,
                split: split.clone().into(),
                metric: known.expect("defined").name.to_string(),
                value: aggregated_value,
            });
        }
    }

    /// As Burn's loggers read: of an epoch and a split. Early stopping and the choice of the best
    /// checkpoint ask for it.
    fn read_numeric(
        &mut self,
        name: &str,
        epoch: usize,
        split: &Split,
    ) -> Result<Vec<NumericEntry>, String> {
        let split: &'static str = split.clone().into();
        let entries = self.entries.lock().expect("whole");
        let wanted = entries.iter().filter(|entry| {
            (entry.metric.as_str(), entry.epoch, entry.split) == (name, epoch, split)
        });
        Ok(wanted
            .map(|entry| NumericEntry::Value(entry.value))
            .collect())
    }

    fn log_metric_definition(&mut self, definition: MetricDefinition) {
        self.names.push(definition);
    }

    fn log_epoch_summary(&mut self, _: EpochSummary) {}
}

/// A dashboard on which somebody asks for the end when so many items have been shown.
pub(crate) struct Impatient {
    pub(crate) items: usize,
    pub(crate) interrupter: Interrupter,
}

impl MetricsRendererTraining for Impatient {
    fn update_train(&mut self, _: MetricState) {}
    fn update_valid(&mut self, _: MetricState) {}
}

impl MetricsRendererEvaluation for Impatient {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

impl MetricsRenderer for Impatient {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _: MetricDefinition) {}
}

impl TrainingProgressLogger for Impatient {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}
    fn update_epoch(&mut self, _: usize) {}
    fn start_split(&mut self, _: &str, _: usize) {}

    fn update_split(&mut self, items: usize) {
        if items >= self.items {
            self.interrupter.stop(Some("seen enough"));
        }
    }

    fn end_split(&mut self) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _: String) {}
}

impl EvaluationProgressLogger for Impatient {
    fn start_global_progress(&mut self, _: usize) {}
    fn start_test(&mut self, _: &str, _: usize) {}
    fn update_test_progress(&mut self, _: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _: String) {}
}
