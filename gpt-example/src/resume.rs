//! Going on with a run: what of its options holds, and what may change.
//!
//! Options on the command line win over those of the run, except where they would make another model
//! or another run of it. How the model is cut and what is recomputed may change freely.

use std::path::PathBuf;

use lynx_burn::Save;
use serde_json::Value;

use crate::cli::{OverlapKind, TrainArgs};
use crate::data::{Corpus, Mark};
use crate::error::RunError;
use crate::saved::{Remembered, find, run_of};
use crate::tokenizer::Tokenizer;

/// Options that a run cannot go on with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ResumeError {
    /// Nothing is left to do.
    #[error(
        "the run has taken {taken} of {steps} steps: to go on, ask for more than that with --steps"
    )]
    Over {
        /// Steps taken.
        taken: u64,
        /// Steps of the run.
        steps: u64,
    },
    /// An option that would make another run.
    #[error("{option} is {saved} in the run and cannot become {asked}: leave the option out")]
    Fixed {
        /// The option.
        option: String,
        /// Its value in the save.
        saved: String,
        /// Its value on the command line.
        asked: String,
    },
    /// The text is not the same.
    #[error(
        "{name} has changed since the run began ({then} bytes then, {now} bytes now): to learn the \
         new text from here, name it with --data"
    )]
    Text {
        /// The text.
        name: String,
        /// Its length when the run began.
        then: u64,
        /// Its length now.
        now: u64,
    },
    /// An option without a value that could be written down.
    #[error("the options cannot be joined with those of the run: {0}")]
    Options(String),
}

/// A run that is gone on with.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) save: Save,
    remembered: Remembered,
}

/// Options that decide how the model is cut: any of them puts a plan out of force.
const CUT: [&str; 8] = [
    "stages",
    "layers_per_stage",
    "micro_batches",
    "schedule",
    "policy",
    "tp",
    "replicas",
    "memory_budget",
];

/// Options that say what is recomputed where: any of them puts a memory budget out of force.
const BY_HAND: [&str; 3] = ["plan", "policy", "layers_per_stage"];

/// Options without which it would be another run.
const FIXED: [&str; 10] = [
    "preset",
    "layers",
    "width",
    "heads",
    "context",
    "vocabulary",
    "pad_vocabulary",
    "activation",
    "norm_epsilon",
    "seed",
];

impl Resumed {
    /// The run that the options ask to go on with, if they do.
    pub(crate) fn find(args: &TrainArgs) -> Result<Option<Self>, RunError> {
        let Some(path) = &args.saving.resume else {
            return Ok(None);
        };
        let save = find(path)?;
        let remembered = save.about()?;
        Ok(Some(Self { save, remembered }))
    }

    /// The run's options, with those that were given in their place.
    pub(crate) fn options(&self, asked: &TrainArgs) -> Result<TrainArgs, ResumeError> {
        let mut options = join(&self.remembered.options, asked)?;
        let given = |name: &str| asked.given.contains(name);
        let pipeline = &mut options.pipeline;
        if !given("plan") && CUT.iter().any(|name| given(name)) {
            pipeline.plan = None;
        }
        let budget = &mut options.budget;
        if !given("memory_budget") && BY_HAND.iter().any(|name| given(name)) {
            budget.memory_budget = None;
        }
        let overlap = &mut options.overlap;
        let planned = pipeline.plan.is_some() || budget.memory_budget.is_some();
        if !given("overlap") && !planned && overlap.overlap == Some(OverlapKind::Planned) {
            overlap.overlap = None;
        }
        if !given("collective_link") && given("tp") && overlap.tp == 1 {
            overlap.collective_link = None;
        }
        if !given("replica_link") && given("replicas") && overlap.replicas == 1 {
            overlap.replica_link = None;
        }
        if !given("layers_per_stage") && (given("stages") || given("plan")) {
            pipeline.layers_per_stage = None;
        }
        if !given("stages") && (given("layers_per_stage") || given("plan")) {
            pipeline.stages = None;
        }
        options.saving.resume = asked.saving.resume.clone();
        options.output.out = asked.output.out.clone().or_else(|| run_of(&self.save));
        let (taken, steps) = (self.save.step(), options.training.steps);
        if taken >= steps {
            return Err(ResumeError::Over { taken, steps });
        }
        Ok(options)
    }

    /// How the run's text becomes tokens; a tokenizer that is named again must be the same.
    pub(crate) fn tokenizer(&self, args: &TrainArgs) -> Result<Tokenizer, RunError> {
        let own = self.remembered.tokenizer(self.save.path())?;
        let asked = args.output.tokenizer.as_ref();
        if let Some(path) = asked.filter(|_| args.given.contains("tokenizer")) {
            let other = Tokenizer::read(path)?;
            if other.json() != own.json() {
                return Err(RunError::from(ResumeError::Fixed {
                    option: "--tokenizer".to_owned(),
                    saved: own.json().map_or("none", |_| "another").to_owned(),
                    asked: path.display().to_string(),
                }));
            }
        }
        Ok(own)
    }

    /// Finds that the text is the one that the run has learnt so far, unless another was given.
    pub(crate) fn check_text(&self, asked: &TrainArgs, corpus: &Corpus) -> Result<(), ResumeError> {
        let (then, now): (&Mark, Mark) = (&self.remembered.corpus, corpus.mark());
        // Where it lies may have another name from here.
        let same = (then.bytes, then.crc32) == (now.bytes, now.crc32);
        if same || asked.given.contains("data") {
            return Ok(());
        }
        Err(ResumeError::Text {
            name: corpus.name.clone(),
            then: then.bytes,
            now: now.bytes,
        })
    }

    /// Whether the run's own folder is written on.
    pub(crate) fn continues_in(&self, folder: &PathBuf) -> bool {
        let same = |own: PathBuf| {
            let found = [std::fs::canonicalize(own), std::fs::canonicalize(folder)];
            matches!(found, [Ok(own), Ok(folder)] if own == folder)
        };
        run_of(&self.save).is_some_and(same)
    }
}

/// `saved`, with the values of the options that were given in `asked`.
///
/// By names, so that an option that is added one day is not forgotten here.
fn join(saved: &TrainArgs, asked: &TrainArgs) -> Result<TrainArgs, ResumeError> {
    let failed = |error: serde_json::Error| ResumeError::Options(error.to_string());
    let saved = serde_json::to_value(saved).map_err(failed)?;
    let mut joined = serde_json::to_value(asked).map_err(failed)?;
    let groups = joined.as_object_mut().into_iter().flatten();
    for (group, options) in groups {
        for (name, value) in options.as_object_mut().into_iter().flatten() {
            let Some(known) = saved.get(group).and_then(|options| options.get(name)) else {
                continue;
            };
            if !asked.given.contains(name) {
                *value = known.clone();
            } else if FIXED.contains(&name.as_str()) && value != known {
                return Err(fixed(name, known, value));
            }
        }
    }
    let mut joined: TrainArgs = serde_json::from_value(joined).map_err(failed)?;
    joined.given.clone_from(&asked.given);
    // Of this terminal, not of the run.
    joined.tui = asked.tui;
    Ok(joined)
}

fn fixed(name: &str, saved: &Value, asked: &Value) -> ResumeError {
    ResumeError::Fixed {
        option: format!("--{}", name.replace('_', "-")),
        saved: plain(saved),
        asked: plain(asked),
    }
}

/// A value for people.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "not given".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::train_args;

    fn read(arguments: &str) -> TrainArgs {
        train_args(arguments).expect("valid")
    }

    #[test]
    fn options_that_are_not_given_are_the_runs_own() {
        let saved = read("--layers 3 --steps 50 --policy every:2 --device flex --link 1GB/s,5us");
        let joined = join(&saved, &read("--steps 80 --schedule gpipe")).expect("no conflict");
        let expected = read(
            "--layers 3 --steps 80 --policy every:2 --device flex --link 1GB/s,5us --schedule gpipe",
        );
        let text = |args: &TrainArgs| serde_json::to_string(args).expect("options");
        assert_eq!(text(&joined), text(&expected));
    }

    #[test]
    fn another_model_or_seed_is_refused_and_the_same_one_is_not() {
        let saved = read("--layers 3 --seed 4");
        assert!(join(&saved, &read("--layers 3 --seed 4")).is_ok());
        for (arguments, named) in [
            ("--layers 4", "--layers is 3"),
            ("--seed 5", "become 5"),
            ("--width 64", "--width is 128"),
        ] {
            let error = join(&saved, &read(arguments)).expect_err(arguments);
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
