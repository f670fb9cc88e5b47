//! A step's record as Burn's metrics.

use std::sync::Arc;

use burn::train::metric::{
    MetricAttributes, MetricDefinition, MetricEntry, MetricId, NumericAttributes, NumericEntry,
    SerializedEntry,
};
use burn::train::renderer::MetricState;

use crate::metrics::{Record, worker_name};

/// What is shown, and how a record tells it.
pub(super) struct Metric {
    name: String,
    unit: &'static str,
    higher_is_better: bool,
    digits: usize,
    read: Read,
}

enum Read {
    Simple(fn(&Record) -> f64),
    /// MiB that one worker kept.
    Kept(usize),
}

/// The loss, by which training and validation are shown in one plot.
pub(super) fn loss() -> Metric {
    Metric::new("Loss", "nats", 4, |record| record.train_loss)
}

/// All others, for so many ranks, stages and replicas.
pub(super) fn others(all: (usize, usize, usize)) -> Vec<Metric> {
    let workers = all.0 * all.1 * all.2;
    let speed = Metric {
        higher_is_better: true,
        ..Metric::new("Speed", "tokens/s", 0, |record| record.tokens_per_s)
    };
    let mut metrics = vec![
        speed,
        Metric::new("Learning rate", "", 6, |record| record.learning_rate),
    ];
    metrics.extend((0..workers).map(|worker| Metric {
        name: format!("Kept by {}", worker_name(worker, all)),
        read: Read::Kept(worker),
        ..Metric::new("", "MiB", 2, |_| f64::NAN)
    }));
    metrics.push(Metric::new("Exposed recompute", "ms", 2, |record| {
        1e3 * record.exposed_s
    }));
    metrics.push(Metric {
        higher_is_better: true,
        ..Metric::new("Hidden recompute", "ms", 2, |record| 1e3 * record.hidden_s)
    });
    metrics
}

impl Metric {
    fn new(name: &str, unit: &'static str, digits: usize, read: fn(&Record) -> f64) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            higher_is_better: false,
            digits,
            read: Read::Simple(read),
        }
    }

    fn id(&self) -> MetricId {
        MetricId::new(Arc::new(self.name.clone()))
    }

    /// What the renderer is told of it once.
    pub(super) fn definition(&self) -> MetricDefinition {
        MetricDefinition {
            metric_id: self.id(),
            name: Arc::new(self.name.clone()),
            description: None,
            attributes: MetricAttributes::Numeric(NumericAttributes {
                unit: (!self.unit.is_empty()).then(|| self.unit.to_owned()),
                higher_is_better: self.higher_is_better,
            }),
        }
    }

    /// What a record says.
    pub(super) fn of(&self, record: &Record) -> MetricState {
        self.state(match self.read {
            Read::Simple(read) => read(record),
            Read::Kept(worker) => {
                let bytes = record.retained_peak_bytes.get(worker);
                bytes.map_or(f64::NAN, |&bytes| bytes as f64 / f64::from(1 << 20))
            }
        })
    }

    /// A value. What is no number has no place in a plot.
    pub(super) fn state(&self, value: f64) -> MetricState {
        let text = format!("{value:.*} {}", self.digits, self.unit);
        let entry = SerializedEntry::new(text.trim_end().to_owned(), value.to_string());
        let point = value.is_finite().then_some(NumericEntry::Value(value));
        MetricState::Numeric(MetricEntry::new(self.id(), entry), point)
    }
}
