//! A training run, from options to a last word.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use burn::prelude::*;
use lynx_burn::{SaveError, Saves, StepReport, TrainError, Trainer};
use serde::Serialize;

use crate::cli::TrainArgs;
use crate::config::GptConfig;
use crate::data::{Corpus, micro_batches};
use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::metrics::{Record, RunFolder};
use crate::model::Gpt;
use crate::pipeline::{build, layers_per_stage};
use crate::planned::obey;
use crate::progress::{Progress, say};
use crate::resume::Resumed;
use crate::sample::{Sampling, sample};
use crate::saved::{Remembered, saves_of};
use crate::tokenizer::printable;

/// What is written to `config.json`.
#[derive(Serialize)]
struct Configuration<'a> {
    options: &'a TrainArgs,
    model: &'a GptConfig,
    parameters: usize,
    layers_per_stage: Vec<usize>,
    unigram_entropy: f64,
}

/// Trains as asked; returns when the last step is taken and the sample written, or when Ctrl-C was
/// pressed and the state saved.
///
/// # Errors
///
/// If the options do not fit together, or something fails on the way.
pub fn run(args: &TrainArgs) -> Result<(), RunError> {
    let resumed = Resumed::find(args)?;
    let asked = args;
    let mut args = match &resumed {
        Some(run) => run.options(asked)?,
        None => args.clone(),
    };
    args.config().validate()?;
    let obeyed = obey(&mut args)?;
    let args = &args;
    args.check()?;
    let config = args.config();
    let corpus = Corpus::load(args.output.data.as_deref(), config.context)?;
    let devices = args
        .pipeline
        .device
        .iter()
        .map(|name| name.open())
        .collect::<Result<Vec<Device>, _>>()?;
    let mut trainer = build(args, &devices, obeyed.schedule)?;
    if let Some(run) = &resumed {
        run.check_text(asked, &corpus)?;
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
    let interrupt = Interrupt::listen().map_err(RunError::Interrupt)?;
    summarise(&configuration, &corpus, &folder);
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
        saves: saves_of(folder.path()).keep(args.saving.keep),
        remembered: Remembered::new(args, &corpus),
        interrupt,
        saved: None,
        trainer,
        first: devices[0].clone(),
        last: devices[devices.len() - 1].clone(),
    };
    let path = folder.path().to_owned();
    let Some(loss) = run.train(folder)? else {
        say(format_args!(
            "interrupted after step {}, which is saved; go on with: gpt train --resume {}",
            run.trainer.steps(),
            path.display()
        ));
        return Ok(());
    };
    let entropy = configuration.unigram_entropy;
    say(format_args!(
        "validation loss {loss:.4} nats a byte, unigram entropy {entropy:.4}"
    ));
    run.speak()?;
    if let Some(save) = &run.saved {
        let (save, folder) = (save.display(), path.display());
        say(format_args!(
            "\nsaved     {save}; to let it write: gpt generate {folder}"
        ));
    }
    Ok(())
}

fn summarise(configuration: &Configuration<'_>, corpus: &Corpus, folder: &RunFolder) {
    let (args, model) = (configuration.options, configuration.model);
    let layers: Vec<String> = configuration
        .layers_per_stage
        .iter()
        .map(usize::to_string)
        .collect();
    say(format_args!(
        "model     {} layers, width {}, {} heads, context {}: {:.2} M parameters",
        model.layers,
        model.d_model,
        model.heads,
        model.context,
        configuration.parameters as f64 / 1e6
    ));
    say(format_args!(
        "pipeline  {} stages of {} layers, {}, {} micro-batches, policy {}",
        layers.len(),
        layers.join(" + "),
        args.pipeline.schedule,
        args.pipeline.micro_batches,
        args.pipeline.policy
    ));
    say(format_args!(
        "corpus    {}: {} bytes to learn, {} to validate, unigram entropy {:.4} nats a byte",
        corpus.name,
        corpus.train.len(),
        corpus.validation.len(),
        configuration.unigram_entropy
    ));
    say(format_args!("run       {}", folder.path().display()));
}

struct Run<'a> {
    args: &'a TrainArgs,
    context: usize,
    corpus: &'a Corpus,
    saves: Saves,
    remembered: Remembered,
    interrupt: Interrupt,
    /// The last save.
    saved: Option<PathBuf>,
    trainer: Trainer<Gpt>,
    first: Device,
    last: Device,
}

impl Run<'_> {
    /// Takes all steps that are left; returns the last validation loss, or nothing if it was asked to
    /// end before. Either way the last step taken is saved.
    fn train(&mut self, mut folder: RunFolder) -> Result<Option<f64>, RunError> {
        let (training, output) = (&self.args.training, &self.args.output);
        let mut validation = self.evaluate()?;
        let taken = self.trainer.steps();
        say(format_args!("step {taken:>5}  validation {validation:.4}"));
        let progress = Progress::new(training.steps);
        let start = Instant::now();
        let mut since_record = Meter::default();
        for step in taken + 1..=training.steps {
            let rate = self.args.learning_rate().at(step - 1);
            let before = Instant::now();
            let report = self.step(step - 1, rate)?;
            since_record.add(training.batch() * self.context, before.elapsed());
            let evaluates = step.is_multiple_of(output.eval_every) || step == training.steps;
            if evaluates {
                validation = self.evaluate()?;
            }
            let record = Record {
                step,
                train_loss: report.loss(),
                val_loss: evaluates.then_some(validation),
                tokens_per_s: since_record.rate(),
                retained_peak_bytes: retained(&report),
                recomputed_segments: report.backward.recomputed(),
                learning_rate: rate,
                gradient_norm: report.update.gradient_norm,
                applied: report.update.applied,
                elapsed_s: start.elapsed().as_secs_f64(),
            };
            progress.step(&record);
            if evaluates || step == 1 || step.is_multiple_of(output.log_every) {
                folder.record(&record)?;
                progress.log(&record);
                since_record = Meter::default();
            }
            let interrupted = self.interrupt.asked() && step < training.steps;
            if interrupted || step == training.steps || self.saves_at(step) {
                folder.sync()?;
                self.save()?;
            }
            if interrupted {
                progress.finish();
                return Ok(None);
            }
        }
        progress.finish();
        Ok(Some(validation))
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
        let training = &self.args.training;
        let (batch, seed) = (training.batch(), training.seed);
        let windows = self.corpus.train_windows(self.context, batch, seed, step);
        let parts = micro_batches(
            &self.corpus.train,
            &windows,
            self.context,
            self.args.pipeline.micro_batches,
            (&self.first, &self.last),
        );
        self.trainer.step(rate, parts)
    }

    /// The mean loss over the validation windows, in micro-batches of the training's size.
    fn evaluate(&mut self) -> Result<f64, TrainError> {
        let batches = self.args.output.eval_batches;
        let windows = self
            .corpus
            .validation_windows(self.context, batches * self.args.training.batch());
        let parts = micro_batches(
            &self.corpus.validation,
            &windows,
            self.context,
            batches * self.args.pipeline.micro_batches,
            (&self.first, &self.last),
        );
        self.trainer.evaluate(parts)
    }

    /// Writes a sample.
    fn speak(&mut self) -> Result<(), TrainError> {
        let output = &self.args.output;
        if output.sample == 0 {
            return Ok(());
        }
        let sampling = Sampling {
            seed: self.args.training.seed,
            temperature: output.temperature,
            top_k: None,
            context: self.context,
        };
        // A new line is where anything may begin.
        let text = sample(
            &mut self.trainer,
            b"\n",
            output.sample,
            sampling,
            &self.first,
        )?;
        say(format_args!("\n{}", printable(&text)));
        Ok(())
    }
}

fn retained(report: &StepReport) -> Vec<u64> {
    let stages = report.backward.stages.iter();
    stages.map(|stage| stage.retained_peak.0).collect()
}

/// Tokens and the time they took.
#[derive(Debug, Default)]
struct Meter {
    tokens: usize,
    time: Duration,
}

impl Meter {
    fn add(&mut self, tokens: usize, time: Duration) {
        self.tokens += tokens;
        self.time += time;
    }

    fn rate(&self) -> f64 {
        self.tokens as f64 / self.time.as_secs_f64().max(1e-9)
    }
}
