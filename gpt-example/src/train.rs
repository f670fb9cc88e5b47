//! A training run, from options to a last word.

mod steps;

use std::sync::Arc;

use burn::prelude::*;

use crate::beginning::Beginning;
use crate::budget::{self, Watch};
use crate::cli::TrainArgs;
use crate::dashboard;
use crate::data::Corpus;
use crate::describe::{Configuration, about};
use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::metrics::RunFolder;
use crate::pipeline::{build_from, layers_per_stage};
use crate::planned::obey;
use crate::progress::say;
use crate::report::{OneStep, Report, State, Subject};
use crate::resume::Resumed;
use crate::saved::{Remembered, saves_of};
use steps::Run;

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
