//! The curves of a run.

use super::Subject;
use super::chart::{Chart, Series};
use crate::metrics::{Record, worker_name};

/// Losses, and what counting tokens alone would reach.
pub(super) fn losses(records: &[Record], subject: &Subject) -> Chart {
    let of = |value: fn(&Record) -> Option<f64>| {
        let points = records.iter();
        points
            .filter_map(|record| Some((record.step as f64, value(record)?)))
            .collect()
    };
    let meaning = format!(
        "{} frequencies alone: {:.3}",
        subject.unit, subject.unigram_entropy
    );
    Chart {
        title: "Loss".to_owned(),
        unit: format!("nats a {}, less is better", subject.unit),
        from_zero: false,
        series: vec![
            Series {
                name: "training".to_owned(),
                points: of(|record| Some(record.train_loss)),
                dots: false,
            },
            Series {
                name: "validation".to_owned(),
                points: of(|record| record.val_loss),
                dots: true,
            },
        ],
        mark: Some((subject.unigram_entropy, meaning)),
    }
}

/// Tokens a second.
pub(super) fn speed(records: &[Record]) -> Chart {
    let points = records.iter();
    Chart {
        title: "Speed".to_owned(),
        unit: "tokens a second".to_owned(),
        from_zero: true,
        series: vec![Series {
            name: "training".to_owned(),
            points: points
                .map(|record| (record.step as f64, record.tokens_per_s))
                .collect(),
            dots: false,
        }],
        mark: None,
    }
}

/// A curve for each stage, and for each of its ranks and in each replica if there are several.
pub(super) fn memory(records: &[Record], subject: &Subject) -> Chart {
    let workers = records
        .iter()
        .map(|record| record.retained_peak_bytes.len());
    let workers = workers.max().unwrap_or(0);
    let (ranks, replicas) = (subject.ranks.max(1), subject.replicas.max(1));
    let stages = (workers / ranks / replicas).max(1);
    let series = (0..workers).map(|worker| Series {
        name: worker_name(worker, (ranks, stages, replicas)),
        points: records
            .iter()
            .filter_map(|record| {
                let bytes = *record.retained_peak_bytes.get(worker)?;
                Some((record.step as f64, mebibytes(bytes)))
            })
            .collect(),
        dots: false,
    });
    Chart {
        title: "Activations kept".to_owned(),
        unit: "MiB at the peak of a step".to_owned(),
        from_zero: true,
        series: series.collect(),
        mark: None,
    }
}

pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record, report};
    use super::*;

    #[test]
    fn curves_of_memory_are_named_after_replicas_stages_and_ranks() {
        let names = |workers, ranks, replicas| -> Vec<String> {
            let subject = Subject {
                ranks,
                replicas,
                ..report().subject
            };
            let mut record = record(1, None);
            record.retained_peak_bytes = vec![1; workers];
            let series = memory(&[record], &subject).series.into_iter();
            series.map(|one| one.name).collect()
        };
        assert_eq!(names(2, 1, 1), ["stage 0", "stage 1"]);
        assert_eq!(names(2, 2, 1), ["stage 0, rank 0", "stage 0, rank 1"]);
        assert_eq!(names(2, 1, 2), ["replica 0, stage 0", "replica 1, stage 0"]);
        let all = names(8, 2, 2);
        assert_eq!(all[3], "replica 0, stage 1, rank 1");
        assert_eq!(all[4], "replica 1, stage 0, rank 0");
    }
}
