//! A training run, from options to a last word.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use burn::prelude::*;
use lynx_burn::{MicroBatch, SaveError, Saves, StepReport, TrainError, Trainer};

use crate::beginning::Beginning;
use crate::budget::{self, Watch};
use crate::cli::TrainArgs;
use crate::dashboard;
use crate::data::{Corpus, micro_batches};
use crate::describe::{Configuration, about};
use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::metrics::{Meter, Record, RunFolder};
use crate::model::Gpt;
use crate::pipeline::{build_from, layers_per_stage};
use crate::planned::obey;
use crate::progress::{Progress, say};
use crate::report::{OneStep, Report, State, Subject};
use crate::resume::Resumed;
use crate::sample::{Sampling, sample};
use crate::saved::{Remembered, saves_of};
use crate::tokenizer::{Tokenizer, printable};

/// Trains as asked; returns when the last step is taken and the sample written, or when Ctrl-C was
/// pressed and the state saved.
///
/// # Errors
///
/// If the options do not fit together, or something fails on the way.
pub fn run(args: &TrainArgs) -> Result<(), RunError> {
    if args.tui {
        dashboard::possible()?;
    }
    let resumed = Resumed::find(args)?;
    let asked = args;
    let mut args = match &resumed {
        Some(run) => run.options(asked)?,
        None => args.clone(),
    };
    let beginning = Beginning::new(&mut args, resumed.as_ref())?;
    args.config().validate()?;
    let obeyed = obey(&mut args)?;
    args.check()?;
    let config = args.config();
    let data = args.output.data.as_deref();
    let corpus = Corpus::load(data, config.context, &beginning.tokenizer)?;
    if let Some(run) = &resumed {
        run.check_text(asked, &corpus)?;
    }
    let (watch, orders) = match budget::prepare(&mut args)? {
        Some((watch, orders)) => (Some(watch), orders),
        None => (None, obeyed.orders),
    };
    let args = &args;
    let devices = args
        .pipeline
        .device
        .iter()
        .map(|name| name.open())
        .collect::<Result<Vec<Device>, _>>()?;
    let observer = Arc::new(OneStep::default());
    let mut trainer = build_from(
        args,
        &devices,
        orders,
        (beginning.weights.as_ref(), Some(observer.clone())),
    )?;
    if let Some(run) = &resumed {
        trainer.resume(&run.save)?;
    }
    let configuration = Configuration {
        options: args,
        model: &config,
        parameters: config.parameters(),
        layers_per_stage: layers_per_stage(&trainer),
        unigram_entropy: corpus.unigram_entropy(),
    };
    let folder = args.output.out.clone();
    let folder = folder.unwrap_or_else(RunFolder::default_path);
    let folder = match &resumed {
        Some(run) if run.continues_in(&folder) => {
            RunFolder::go_on(&folder, &configuration, run.save.step())?
        }
        _ => RunFolder::create(&folder, &configuration)?,
    };
    if let Some(watch) = &watch {
        folder.plan(watch.plan())?;
    }
    folder.tokenizer(beginning.tokenizer.json())?;
    let interrupt = Interrupt::listen().map_err(RunError::Interrupt)?;
    let mut about = about(&configuration, &corpus);
    about.extend(beginning.about(args, resumed.as_ref().map(|run| &run.save)));
    for (name, value) in &about {
        say(format_args!("{name:<9} {value}"));
    }
    say(format_args!("run       {}", folder.path().display()));
    obeyed.about.iter().for_each(say);
    if let Some(run) = &resumed {
        let save = run.save.path().display();
        say(format_args!(
            "resumed   {save}, after step {}",
            trainer.steps()
        ));
    }
    let mut run = Run {
        args,
        context: config.context,
        corpus: &corpus,
        tokenizer: &beginning.tokenizer,
        saves: saves_of(folder.path()).keep(args.saving.keep),
        remembered: Remembered::new(args, &corpus, &beginning.tokenizer),
        interrupt,
        observer,
        report: Report::new(Subject {
            about,
            unigram_entropy: configuration.unigram_entropy,
            unit: corpus.unit(),
            bits_per_nat: corpus.validation.bits_per_byte(1.0),
            steps: args.training.steps,
            ranks: args.overlap.tp,
            replicas: args.overlap.replicas,
        }),
        saved: None,
        watch,
        trainer,
        first: devices[0].clone(),
        last: devices[devices.len() - 1].clone(),
    };
    let path = folder.path().to_owned();
    let mut folder = folder;
    let Some(loss) = run.train(&mut folder)? else {
        run.tell(&folder, State::Interrupted)?;
        say(format_args!(
            "interrupted after step {}, which is saved; go on with: gpt train --resume {}",
            run.trainer.steps(),
            path.display()
        ));
        return Ok(());
    };
    let entropy = configuration.unigram_entropy;
    say(format_args!(
        "validation loss {loss:.4} nats a {}, unigram entropy {entropy:.4}",
        corpus.unit()
    ));
    if beginning.tokenizer.json().is_some() {
        let bits = corpus.validation.bits_per_byte(loss);
        say(format_args!("                {bits:.4} bits a byte"));
    }
    run.speak()?;
    if let Some(text) = run
        .watch
        .as_ref()
        .map(Watch::outcome)
        .transpose()?
        .flatten()
    {
        say(format_args!("\n{text}"));
    }
    run.tell(&folder, State::Finished)?;
    if let Some(save) = &run.saved {
        let (save, folder) = (save.display(), path.display());
        say(format_args!(
            "\nsaved     {save}; to let it write: gpt generate {folder}"
        ));
    }
    Ok(())
}

struct Run<'a> {
    args: &'a TrainArgs,
    context: usize,
    corpus: &'a Corpus,
    tokenizer: &'a Tokenizer,
    saves: Saves,
    remembered: Remembered,
    interrupt: Interrupt,
    observer: Arc<OneStep>,
    report: Report,
    /// The last save.
    saved: Option<PathBuf>,
    /// Of a run within a memory budget.
    watch: Option<Watch>,
    trainer: Trainer<Gpt>,
    first: Device,
    last: Device,
}

impl Run<'_> {
    /// Takes all steps that are left; returns the last validation loss, or nothing if it was asked to
    /// end before. Either way the last step taken is saved.
    fn train(&mut self, folder: &mut RunFolder) -> Result<Option<f64>, RunError> {
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
    fn tell(&self, folder: &RunFolder, state: State) -> Result<(), RunError> {
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
    fn speak(&mut self) -> Result<(), RunError> {
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
