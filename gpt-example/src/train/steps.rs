//! The steps of a training run, and what happens between them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use burn::prelude::*;
use lynx_burn::{MicroBatch, SaveError, Saves, StepReport, TrainError, Trainer};

use crate::budget::Watch;
use crate::cli::TrainArgs;
#[cfg(feature = "tui")]
use crate::dashboard;
use crate::data::{Corpus, micro_batches};
use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::metrics::{Meter, Record, RunFolder};
use crate::model::Gpt;
use crate::progress::{Progress, say};
use crate::report::{OneStep, Report, State};
use crate::sample::{Sampling, sample};
use crate::saved::Remembered;
use crate::tokenizer::{Tokenizer, printable};

/// A run under way.
pub(super) struct Run<'a> {
    pub(super) args: &'a TrainArgs,
    pub(super) context: usize,
    pub(super) corpus: &'a Corpus,
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) saves: Saves,
    pub(super) remembered: Remembered,
    pub(super) interrupt: Interrupt,
    pub(super) observer: Arc<OneStep>,
    pub(super) report: Report,
    /// The last save.
    pub(super) saved: Option<PathBuf>,
    /// Of a run within a memory budget.
    pub(super) watch: Option<Watch>,
    pub(super) trainer: Trainer<Gpt>,
    pub(super) first: Device,
    pub(super) last: Device,
}

impl Run<'_> {
    /// Takes all steps that are left; returns the last validation loss, or nothing if it was asked to
    /// end before. Either way the last step taken is saved.
    pub(super) fn train(&mut self, folder: &mut RunFolder) -> Result<Option<f64>, RunError> {
        let (training, output) = (&self.args.training, &self.args.output);
        self.rehearse()?;
        let mut validation = self.evaluate()?;
        let taken = self.trainer.steps();
        say(format_args!("step {taken:>5}  validation {validation:.4}"));
        if training.steps == 0 {
            folder.sync()?;
            self.save()?;
        }
        let mut progress = self.progress(folder)?;
        let start = Instant::now();
        let elapsed_before = folder.records()?.last().map_or(0.0, |last| last.elapsed_s);
        let mut since_record = Meter::default();
        for step in taken + 1..=training.steps {
            let rate = self.args.learning_rate().at(step - 1);
            let evaluates = step.is_multiple_of(output.eval_every) || step == training.steps;
            if evaluates || step == taken + 1 {
                self.observer.look();
            }
            let before = Instant::now();
            let report = self.step(step - 1, rate)?;
            since_record.add(training.batch() * self.context, before.elapsed());
            if let Some(timeline) = self.observer.take() {
                self.report.show_step(step, timeline);
            }
            self.replan(&report, (folder, &mut progress))?;
            if evaluates {
                validation = self.evaluate()?;
            }
            let record = Record {
                step,
                train_loss: report.loss(),
                val_loss: evaluates.then_some(validation),
                tokens_per_s: since_record.rate(),
                retained_peak_bytes: retained(&report),
                step_s: report.backward.time.seconds(),
                exposed_s: report.backward.exposed().seconds(),
                hidden_s: report.backward.hidden().seconds(),
                recomputed_segments: report.backward.recomputed(),
                learning_rate: rate,
                gradient_norm: report.update.gradient_norm,
                applied: report.update.applied,
                elapsed_s: elapsed_before + start.elapsed().as_secs_f64(),
            };
            progress.step(&record)?;
            if evaluates || step == 1 || step.is_multiple_of(output.log_every) {
                folder.record(&record)?;
                progress.log(&record);
                since_record = Meter::default();
            }
            if evaluates || step == taken + 1 {
                self.tell(folder, State::Running)?;
            }
            let asked = self.interrupt.asked() || progress.asked_to_end();
            let interrupted = asked && step < training.steps;
            if interrupted || step == training.steps || self.saves_at(step) {
                folder.sync()?;
                self.save()?;
            }
            if interrupted {
                progress.finish()?;
                return Ok(None);
            }
        }
        progress.finish()?;
        Ok(Some(validation))
    }

    /// What a person sees.
    fn progress(&self, folder: &RunFolder) -> Result<Progress, RunError> {
        #[cfg(feature = "tui")]
        if self.args.tui {
            let output = &self.args.output;
            return Ok(Progress::dashboard(dashboard::Course {
                label: folder.path().display().to_string(),
                steps: self.args.training.steps,
                taken: self.trainer.steps(),
                eval_every: output.eval_every,
                eval_batches: output.eval_batches,
                ranks: self.trainer.ranks(),
                stages: self.trainer.partition().stages(),
                replicas: self.trainer.replicas(),
            })?);
        }
        #[cfg(not(feature = "tui"))]
        let _ = folder;
        Ok(Progress::new(self.args.training.steps))
    }

    /// Writes the report anew.
    pub(super) fn tell(&self, folder: &RunFolder, state: State) -> Result<(), RunError> {
        let records = folder.records()?;
        Ok(self.report.write(folder.path(), state, &records)?)
    }

    /// Plans again, if there is a plan that steps have drifted from.
    fn replan(
        &mut self,
        report: &StepReport,
        (folder, progress): (&RunFolder, &mut Progress),
    ) -> Result<(), RunError> {
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        if let Some(ratio) = watch.step(&report.backward) {
            progress.say(watch.replan(&mut self.trainer, ratio)?);
            folder.plan(watch.plan())?;
        }
        Ok(())
    }

    /// If there is a plan: tries out what a step holds.
    fn rehearse(&mut self) -> Result<(), RunError> {
        if self.watch.is_none() {
            return Ok(());
        }
        let first = self.batches(self.trainer.steps()).into_iter().next();
        if let (Some(watch), Some(batch)) = (&mut self.watch, first) {
            say(watch.rehearse(&mut self.trainer, batch)?);
        }
        Ok(())
    }

    fn saves_at(&self, step: u64) -> bool {
        let every = self.args.saving.save_every;
        every > 0 && step.is_multiple_of(every)
    }

    fn save(&mut self) -> Result<(), SaveError> {
        let save = self.trainer.save(&self.saves, &self.remembered)?;
        self.saved = Some(save.path().to_owned());
        Ok(())
    }

    fn step(&mut self, step: u64, rate: f64) -> Result<StepReport, TrainError> {
        let batches = self.batches(step);
        self.trainer.step(rate, batches)
    }

    /// The micro-batches of a step.
    fn batches(&self, step: u64) -> Vec<MicroBatch<Gpt>> {
        let training = &self.args.training;
        let (batch, seed) = (training.batch(), training.seed);
        let windows = self.corpus.train_windows(self.context, batch, seed, step);
        micro_batches(
            &self.corpus.train,
            &windows,
            self.context,
            self.args.pipeline.micro_batches,
            (&self.first, &self.last),
        )
    }

    /// The mean loss over the validation windows, in micro-batches of the training's size.
    fn evaluate(&mut self) -> Result<f64, TrainError> {
        let batches = self.args.output.eval_batches;
        let windows = self
            .corpus
            .validation_windows(self.context, batches * self.args.training.batch());
        let parts = micro_batches(
            &self.corpus.validation.tokens,
            &windows,
            self.context,
            batches * self.args.pipeline.micro_batches,
            (&self.first, &self.last),
        );
        if let Some(watch) = &mut self.watch {
            watch.pause();
        }
        self.trainer.evaluate(parts)
    }

    /// Writes a sample.
    pub(super) fn speak(&mut self) -> Result<(), RunError> {
        let output = &self.args.output;
        if output.sample == 0 {
            return Ok(());
        }
        let sampling = Sampling {
            seed: self.args.training.seed,
            temperature: output.temperature,
            top_k: None,
            context: self.context,
            vocabulary: self.tokenizer.vocabulary(),
        };
        let text = sample(
            &mut self.trainer,
            &self.tokenizer.beginning(),
            output.sample,
            sampling,
            &self.first,
        )?;
        let text = printable(&self.tokenizer.decode(&text)?);
        say(format_args!("\n{text}"));
        self.report.show_sample(text);
        Ok(())
    }
}

fn retained(report: &StepReport) -> Vec<u64> {
    let stages = report.backward.stages.iter();
    stages.map(|stage| stage.retained_peak.0).collect()
}
