//! The command line.
//!
//! Every option of `gpt train` has a default, so `cargo run --release` trains. Wrong values are one
//! line on standard error, not a page of usage.

mod bench;
mod budget;
mod complete;
mod eval;
mod export;
mod generate;
mod overlap;
mod plan;
mod saving;
mod simulate;
mod tokenizer;
mod train;
mod values;

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use bench::BenchArgs;
pub use budget::BudgetArgs;
pub use complete::{CompletionsArgs, completions};
pub use eval::EvalArgs;
pub use export::ExportArgs;
pub use generate::GenerateArgs;
pub use overlap::{OverlapArgs, OverlapKind};
pub use plan::{
    AttentionKind, GptArgs, MaskKind, OutputArgs as PlanOutputArgs, PlanArgs, SetupArgs, SourceArgs,
};
pub use saving::SavingArgs;
pub use simulate::SimulateArgs;
pub use tokenizer::{TokenizerArgs, TokenizerCommand, TokenizerTrainArgs};
pub use train::{ModelArgs, OutputArgs, PipelineArgs, TrainArgs, TrainingArgs};

const EXAMPLES: &str = "\
Examples:
  gpt --data my.txt --out runs/mine            train on your own text
  gpt train --resume runs/mine --steps 2000    go on with that run
  gpt train --stages 1 --memory-budget 40MiB   train within 40 MiB
  gpt generate runs/mine --prompt \"Once\"      let it write
  gpt train --init-from gpt2/model.safetensors --tokenizer gpt2/tokenizer.json --data my.txt
  gpt export runs/mine --out mine/model.safetensors    for Hugging Face's transformers
  gpt plan --model 7b --cluster a100-40-pcie --tp 4 --pp 2 -o plan.json
  gpt simulate plan.json --svg step.svg        see what the plan does";

/// Train a small GPT-2 as a pipeline whose stages recompute activations instead of keeping them,
/// let it write, plan what is recomputed where, and simulate what was planned.
#[derive(Debug, Parser)]
#[command(name = "gpt", version, args_conflicts_with_subcommands = true)]
#[command(allow_negative_numbers = true, args_override_self = true)]
#[command(after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    train: TrainArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a model (the default).
    #[command(allow_negative_numbers = true, args_override_self = true)]
    Train(Box<TrainArgs>),
    /// Let a trained model write.
    #[command(allow_negative_numbers = true, args_override_self = true)]
    Generate(Box<GenerateArgs>),
    /// Tell how well a trained model predicts a text.
    #[command(args_override_self = true)]
    Eval(Box<EvalArgs>),
    /// Write a trained model's weights as Hugging Face's GPT-2.
    #[command(args_override_self = true)]
    Export(ExportArgs),
    /// Make a tokenizer.
    Tokenizer(TokenizerArgs),
    /// Decide what each stage recomputes, and where, so that it fits the memory.
    #[command(allow_negative_numbers = true, args_override_self = true)]
    Plan(Box<PlanArgs>),
    /// Tell how long a plan's step takes, and draw it.
    #[command(allow_negative_numbers = true, args_override_self = true)]
    Simulate(Box<SimulateArgs>),
    /// Compare all ways to recompute in real steps, over emulated links.
    Bench(Box<BenchArgs>),
    /// Write a script that completes this program's options in a shell.
    Completions(CompletionsArgs),
}

/// What the program is asked to do.
#[derive(Clone, Debug)]
pub enum Task {
    /// To train.
    Train(Box<TrainArgs>),
    /// To let a model write.
    Generate(Box<GenerateArgs>),
    /// To evaluate a model.
    Eval(Box<EvalArgs>),
    /// To export a model.
    Export(ExportArgs),
    /// To make a tokenizer.
    Tokenizer(TokenizerArgs),
    /// To plan.
    Plan(Box<PlanArgs>),
    /// To simulate.
    Simulate(Box<SimulateArgs>),
    /// To compare.
    Bench(Box<BenchArgs>),
    /// To write completions.
    Completions(CompletionsArgs),
}

impl Cli {
    /// Reads the arguments of the program, its name first.
    ///
    /// # Errors
    ///
    /// If they make no sense, or ask for help: clap puts both into its error.
    pub fn read(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Task, clap::Error> {
        let mut command = Self::command();
        let mut matches = command.try_get_matches_from_mut(arguments)?;
        let given = given(match matches.subcommand() {
            Some((_, matches)) => matches,
            None => &matches,
        });
        let cli =
            Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
        Ok(match cli.command {
            Some(Command::Train(args)) => Task::Train(Box::new(TrainArgs { given, ..*args })),
            Some(Command::Generate(args)) => Task::Generate(args),
            Some(Command::Eval(args)) => Task::Eval(args),
            Some(Command::Export(args)) => Task::Export(args),
            Some(Command::Tokenizer(args)) => Task::Tokenizer(args),
            Some(Command::Plan(args)) => Task::Plan(Box::new(PlanArgs { given, ..*args })),
            Some(Command::Simulate(args)) => Task::Simulate(args),
            Some(Command::Bench(args)) => Task::Bench(args),
            Some(Command::Completions(args)) => Task::Completions(args),
            None => Task::Train(Box::new(TrainArgs { given, ..cli.train })),
        })
    }
}

/// The options that were written out, by their names in the code.
fn given(matches: &ArgMatches) -> BTreeSet<String> {
    let written = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let ids = matches.ids().map(clap::Id::as_str);
    ids.filter(written).map(str::to_owned).collect()
}

/// What is wrong with the arguments, in one line. The rest that clap says is usage, which `--help`
/// shows in full.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    let words: Vec<&str> = lines.map(str::trim).collect();
    words.join(" ")
}

/// The options of a training run, for tests.
#[cfg(test)]
pub(crate) fn train_args(arguments: &str) -> Result<TrainArgs, clap::Error> {
    match Cli::read(std::iter::once("gpt").chain(arguments.split_whitespace()))? {
        Task::Train(args) => Ok(*args),
        other => panic!("{other:?} is no training run"),
    }
}

/// The options of a plan, for tests.
#[cfg(test)]
pub(crate) fn plan_args(arguments: &str) -> Result<PlanArgs, clap::Error> {
    match Cli::read(
        ["gpt", "plan"]
            .into_iter()
            .chain(arguments.split_whitespace()),
    )? {
        Task::Plan(args) => Ok(*args),
        other => panic!("{other:?} is no plan"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn read(arguments: &str) -> Result<TrainArgs, clap::Error> {
        train_args(arguments)
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_mean_the_same_with_and_without_the_subcommand() {
        let bare = read("--steps 7 --layers-per-stage 2,1 --policy every:2").expect("valid");
        let named = read("train --steps 7 --layers-per-stage 2,1 --policy every:2").expect("valid");
        assert_eq!(format!("{bare:?}"), format!("{named:?}"));
        assert_eq!(bare.pipeline.layers_per_stage, Some(vec![2, 1]));
    }

    /// As a save has them that was written before there were presets, tokenizers and two GELUs.
    #[test]
    fn options_of_an_older_save_are_read_as_what_they_were() {
        let now = serde_json::to_value(read("--layers 3").expect("valid")).expect("options");
        let mut old = now.clone();
        let new = [
            ("model", "preset"),
            ("model", "vocabulary"),
            ("model", "pad_vocabulary"),
            ("model", "activation"),
            ("model", "norm_epsilon"),
            ("output", "tokenizer"),
            ("saving", "init_from"),
        ];
        for (group, name) in new {
            let group = old[group].as_object_mut().expect("a group");
            assert!(group.remove(name).is_some(), "{name}");
        }
        let read: TrainArgs = serde_json::from_value(old).expect("an older save");
        assert_eq!(serde_json::to_value(read).expect("options"), now);
    }

    #[test]
    fn values_of_the_wrong_kind_are_refused_with_option_and_value() {
        let cases = [
            ("--steps -1", "--steps"),
            ("--batch 0", "--batch"),
            ("--batch 99999999", "--batch"),
            ("--micro-batches 0", "--micro-batches"),
            ("--layers two", "two"),
            ("--policy sometimes", "sometimes"),
            ("--policy every:0", "every:0"),
            ("--schedule zigzag", "zigzag"),
            ("--link 1GB,50us", "--link"),
            ("--collective-link fast", "--collective-link"),
            ("--tp 0", "--tp"),
            ("--overlap sometimes", "sometimes"),
            ("--memory-budget 0", "--memory-budget"),
            ("--strategy luck", "luck"),
            ("--memory-budget 1GiB --policy retain", "--policy"),
            ("--memory-budget 1GiB --plan p.json", "--plan"),
            ("--plan p.json --tp 2", "--tp"),
            ("--device abacus", "abacus"),
            ("--log-every 0", "--log-every"),
            ("--depth 3", "--depth"),
        ];
        for (arguments, named) in cases {
            let error = read(arguments).expect_err(arguments).to_string();
            let line = error.lines().next().unwrap_or_default();
            assert!(line.contains(named), "{arguments}: {line}");
        }
    }
}
