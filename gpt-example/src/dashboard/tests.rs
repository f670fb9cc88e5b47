use std::sync::{Arc, Mutex};

use burn::train::Interrupter;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::MetricDefinition;
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

use super::board::{Board, Course};
use super::{DashboardError, possible};
use crate::metrics::Record;

/// Writes down what it is told.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<String>>>);

impl Written {
    fn note(&self, line: String) {
        self.0.lock().expect("whole").push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("whole"))
    }
}

fn text(state: MetricState) -> String {
    match state {
        MetricState::Numeric(entry, point) => format!(
            "{} = {:?}",
            entry.serialized_entry.formatted,
            point.map(|point| point.current())
        ),
        MetricState::Generic(entry) => panic!("{entry:?} is no number"),
    }
}

impl MetricsRendererTraining for Written {
    fn update_train(&mut self, state: MetricState) {
        self.note(format!("train {}", text(state)));
    }

    fn update_valid(&mut self, state: MetricState) {
        self.note(format!("valid {}", text(state)));
    }
}

impl MetricsRendererEvaluation for Written {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

impl MetricsRenderer for Written {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.note(format!("metric {}", definition.name));
    }
}

impl TrainingProgressLogger for Written {
    fn start(&mut self, epochs: usize, epoch: usize, _: Option<usize>, label: Option<&str>) {
        self.note(format!("start {epoch}/{epochs} {}", label.unwrap_or("-")));
    }

    fn update_epoch(&mut self, epoch: usize) {
        self.note(format!("epoch {epoch} is over"));
    }

    fn start_split(&mut self, split: &str, items: usize) {
        self.note(format!("{split} of {items}"));
    }

    fn update_split(&mut self, items: usize) {
        self.note(format!("at {items}"));
    }

    fn end_split(&mut self) {
        self.note("end of split".to_owned());
    }

    fn end(&mut self) {
        self.note("end".to_owned());
    }

    fn log_event_training(&mut self, _: String) {}
}

impl EvaluationProgressLogger for Written {
    fn start_global_progress(&mut self, _: usize) {}
    fn start_test(&mut self, _: &str, _: usize) {}
    fn update_test_progress(&mut self, _: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _: String) {}
}

fn course(taken: u64) -> Course {
    Course {
        label: "runs/mine".to_owned(),
        steps: 10,
        taken,
        eval_every: 4,
        eval_batches: 3,
        ranks: 1,
        stages: 2,
        replicas: 1,
    }
}

fn record(step: u64, val_loss: Option<f64>) -> Record {
    Record {
        step,
        train_loss: 2.5,
        val_loss,
        tokens_per_s: 1234.4,
        retained_peak_bytes: vec![3 << 20, 3 << 19],
        step_s: 0.5,
        exposed_s: 0.0625,
        hidden_s: 0.25,
        recomputed_segments: 3,
        learning_rate: 1e-3,
        gradient_norm: None,
        applied: true,
        elapsed_s: 1.0,
    }
}

#[test]
fn a_step_and_its_evaluation_are_told_with_every_metric() {
    let written = Written::default();
    let renderer = Box::new(written.clone());
    let mut board = Board::on(renderer, Interrupter::new(), course(0)).expect("shown");
    assert_eq!(
        written.take(),
        [
            "metric Loss",
            "metric Speed",
            "metric Learning rate",
            "metric Kept by stage 0",
            "metric Kept by stage 1",
            "metric Exposed recompute",
            "metric Hidden recompute",
            "start 1/3 runs/mine",
            "train of 4",
        ]
    );
    let train = [
        "train 2.5000 nats = Some(2.5)",
        "train 1234 tokens/s = Some(1234.4)",
        "train 0.001000 = Some(0.001)",
        "train 3.00 MiB = Some(3.0)",
        "train 1.50 MiB = Some(1.5)",
        "train 62.50 ms = Some(62.5)",
        "train 250.00 ms = Some(250.0)",
    ];
    board.step(&record(3, None)).expect("shown");
    assert_eq!(written.take(), [&train[..], &["at 3"]].concat());
    board.step(&record(4, Some(2.25))).expect("shown");
    let evaluated = [
        "at 4",
        "end of split",
        "valid of 3",
        "valid 2.2500 nats = Some(2.25)",
        "at 3",
        "end of split",
        "epoch 1 is over",
        "train of 4",
    ];
    assert_eq!(written.take(), [&train[..], &evaluated].concat());
    board.close().expect("shown");
    assert_eq!(written.take(), ["end"]);
}

#[test]
fn a_run_that_goes_on_begins_in_its_epoch_and_no_number_is_no_point() {
    let written = Written::default();
    let renderer = Box::new(written.clone());
    let mut board = Board::on(renderer, Interrupter::new(), course(9)).expect("shown");
    assert!(written.take().contains(&"start 3/3 runs/mine".to_owned()));
    let mut last = record(10, Some(f64::INFINITY));
    last.train_loss = f64::NAN;
    last.retained_peak_bytes.clear();
    board.step(&last).expect("shown");
    let told = written.take();
    for line in ["train NaN nats = None", "valid inf nats = None", "at 2"] {
        assert!(told.contains(&line.to_owned()), "{line}: {told:?}");
    }
    // The run is over with the last step: no epoch follows.
    assert_eq!(told.last().map(String::as_str), Some("end of split"));
}

#[test]
fn ranks_are_told_apart_and_a_stop_asked_for_is_heard() {
    let interrupter = Interrupter::new();
    let written = Written::default();
    let course = Course {
        ranks: 2,
        stages: 2,
        replicas: 2,
        ..course(0)
    };
    let board = Board::on(Box::new(written.clone()), interrupter.clone(), course);
    let board = board.expect("shown");
    assert!(
        written
            .take()
            .contains(&"metric Kept by replica 1, stage 1, rank 0".to_owned())
    );
    assert!(!board.asked());
    interrupter.stop(None);
    assert!(board.asked());
}

#[test]
fn where_there_is_no_terminal_there_is_no_dashboard() {
    use std::io::{IsTerminal, stdin, stdout};
    let seen = stdin().is_terminal() && stdout().is_terminal();
    let expected = if seen {
        Ok(())
    } else {
        Err(DashboardError::NoTerminal)
    };
    assert_eq!(possible(), expected);
}
