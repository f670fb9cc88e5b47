//! A run, told to a renderer of Burn's.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::train::Interrupter;
use burn::train::renderer::MetricsRenderer;
use burn::train::renderer::tui::TuiMetricsRendererWrapper;

use super::shown::{self, Metric};
use super::{DashboardError, quiet};
use crate::metrics::Record;

/// What there is to know of a run before it goes on.
#[derive(Clone, Debug)]
pub struct Course {
    /// Its name.
    pub label: String,
    /// Steps at its end.
    pub steps: u64,
    /// Steps taken.
    pub taken: u64,
    /// Steps between two evaluations.
    pub eval_every: u64,
    /// Batches of an evaluation.
    pub eval_batches: usize,
    /// Ranks of a stage.
    pub ranks: usize,
    /// Stages of a replica.
    pub stages: usize,
    /// Replicas.
    pub replicas: usize,
}

/// The dashboard of a run.
pub struct Board {
    /// Gone when it is closed.
    renderer: Option<Box<dyn MetricsRenderer>>,
    interrupter: Interrupter,
    course: Course,
    loss: Metric,
    others: Vec<Metric>,
    /// While it is up.
    _quiet: Option<quiet::Quiet>,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board")
            .field("course", &self.course)
            .finish_non_exhaustive()
    }
}

impl Course {
    /// Steps from one evaluation to the next.
    fn epoch_steps(&self) -> u64 {
        // Burn takes all epochs for equally long; the last one may be over early.
        self.eval_every.min(self.steps).max(1)
    }

    fn epochs(&self) -> usize {
        self.steps.div_ceil(self.epoch_steps()) as usize
    }

    /// Epochs that are over after so many steps.
    fn over(&self, steps: u64) -> usize {
        (steps / self.epoch_steps()) as usize
    }
}

impl Board {
    /// Burn's dashboard, on this process's terminal.
    ///
    /// # Errors
    ///
    /// As [`possible`](super::possible).
    pub fn open(course: Course) -> Result<Self, DashboardError> {
        super::possible()?;
        let quiet = quiet::Quiet::begin();
        let interrupter = Interrupter::new();
        let over = Some(course.over(course.taken));
        let renderer = TuiMetricsRendererWrapper::new(interrupter.clone(), over);
        let mut board = Self::on(Box::new(renderer), interrupter, course)?;
        board._quiet = Some(quiet);
        Ok(board)
    }

    /// The same run on any renderer.
    pub(super) fn on(
        renderer: Box<dyn MetricsRenderer>,
        interrupter: Interrupter,
        course: Course,
    ) -> Result<Self, DashboardError> {
        let all = (course.ranks, course.stages, course.replicas);
        let mut board = Self {
            renderer: Some(renderer),
            interrupter,
            course: course.clone(),
            loss: shown::loss(),
            others: shown::others(all),
            _quiet: None,
        };
        let metrics = std::iter::once(&board.loss).chain(&board.others);
        let definitions: Vec<_> = metrics.map(Metric::definition).collect();
        board.show(|renderer| {
            for definition in definitions {
                renderer.register_metric(definition);
            }
            let next = course.over(course.taken) + 1;
            renderer.start(course.epochs(), next, None, Some(&course.label));
            renderer.start_split("train", course.epoch_steps() as usize);
        })?;
        Ok(board)
    }

    /// A step was taken, and perhaps an evaluation after it.
    ///
    /// # Errors
    ///
    /// If somebody chose to end the run at once.
    pub fn step(&mut self, record: &Record) -> Result<(), DashboardError> {
        let course = self.course.clone();
        let train: Vec<_> = std::iter::once(&self.loss)
            .chain(&self.others)
            .map(|metric| metric.of(record))
            .collect();
        let valid = record.val_loss.map(|loss| self.loss.state(loss));
        let epoch = course.epoch_steps();
        let place = (record.step - 1) % epoch + 1;
        self.show(|renderer| {
            train
                .into_iter()
                .for_each(|state| renderer.update_train(state));
            renderer.update_split(place as usize);
            let Some(valid) = valid else {
                return;
            };
            renderer.end_split();
            renderer.start_split("valid", course.eval_batches);
            renderer.update_valid(valid);
            renderer.update_split(course.eval_batches);
            renderer.end_split();
            if record.step < course.steps {
                renderer.update_epoch(course.over(record.step));
                renderer.start_split("train", epoch as usize);
            }
        })
    }

    /// Whether somebody wants the run to end well.
    pub fn asked(&self) -> bool {
        self.interrupter.should_stop()
    }

    /// Gives the terminal back.
    ///
    /// # Errors
    ///
    /// If somebody chose to end the run at once, just then.
    pub fn close(mut self) -> Result<(), DashboardError> {
        self.show(|renderer| {
            renderer.end();
            // It has nothing to fail with: without a summary, the terminal's is one message.
            let _ = renderer.on_train_end(None);
        })
    }

    /// Burn's dashboard panics in the thread that tells it something when somebody chose `k`.
    fn show(&mut self, tell: impl FnOnce(&mut dyn MetricsRenderer)) -> Result<(), DashboardError> {
        let Some(mut renderer) = self.renderer.take() else {
            return Err(DashboardError::Killed);
        };
        let told = catch_unwind(AssertUnwindSafe(|| tell(renderer.as_mut())));
        if told.is_err() {
            // It would panic again if it were closed. Its thread has given the terminal back, but for
            // the cursor.
            std::mem::forget(renderer);
            let _ = write!(io::stdout(), "\x1b[?25h");
            let _ = io::stdout().flush();
            return Err(DashboardError::Killed);
        }
        self.renderer = Some(renderer);
        Ok(())
    }
}

impl Drop for Board {
    /// Closes the dashboard, before what was said meanwhile is written.
    fn drop(&mut self) {
        if let Some(renderer) = self.renderer.take() {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(renderer)));
        }
    }
}
