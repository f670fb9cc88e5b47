//! Options of `gpt plan`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use lynx_burn::LinkSpeed;
use lynx_burn::plan::cluster::{PRESETS, Precision};
use lynx_burn::plan::profile::GptSize;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::units::Bytes;

use super::train::ModelArgs;
use super::values::{Windows, budget, count, duration, strategy, windows};
use crate::device::DeviceName;

/// All options of a plan.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// What is planned.
    #[command(flatten)]
    pub source: SourceArgs,
    /// A GPT by formulas.
    #[command(flatten)]
    pub gpt: GptArgs,
    /// A GPT by measuring.
    #[command(flatten)]
    pub model: MeasuredArgs,
    /// How it is trained.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// What is written.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The options that were written out, by their names here.
    #[arg(skip)]
    pub given: BTreeSet<String>,
}

/// What is planned, and for which machines.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model and machines")]
#[command(group(ArgGroup::new("source").required(true).args(["model", "profile", "measure"])))]
pub struct SourceArgs {
    /// A GPT of known size, its costs from formulas
    #[arg(long, value_name = "NAME", value_parser = GptSize::NAMES)]
    pub model: Option<String>,
    /// Any model, its costs from a file; --write-profile writes one to start from
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// The GPT that `gpt train` trains, its costs measured on this machine
    #[arg(long)]
    pub measure: bool,
    /// Machines by name, or a file
    #[arg(long, value_name = "NAME|FILE", required_unless_present = "measure")]
    #[arg(help = format!(
        "Machines by name, or a file: {} [default with --measure: cpu-2-core]",
        PRESETS.join(", ")
    ))]
    pub cluster: Option<String>,
    /// Ranks that share each layer [default: 1]
    #[arg(long, value_name = "N", value_parser = count(), conflicts_with = "profile")]
    pub tp: Option<usize>,
    /// Samples of a micro-batch [default: 1]
    #[arg(long, value_name = "N", value_parser = count(), conflicts_with = "profile")]
    pub micro_batch: Option<usize>,
}

/// A GPT by formulas.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "With --model")]
pub struct GptArgs {
    /// Tokens of a sample [default: the model's context]
    #[arg(long, value_name = "N", value_parser = count())]
    #[arg(conflicts_with_all = ["profile", "measure"])]
    pub sequence: Option<usize>,
    /// Share among the ranks what lies outside the matrix products too
    #[arg(long, conflicts_with_all = ["profile", "measure"])]
    pub sequence_parallel: bool,
    /// Of parameters and activations: bf16, f16 or f32 [default: bf16]
    #[arg(long, value_name = "KIND", conflicts_with_all = ["profile", "measure"])]
    pub precision: Option<Precision>,
    /// Whether attention stores its scores [default: stored]
    #[arg(long, value_name = "HOW", conflicts_with_all = ["profile", "measure"])]
    pub attention: Option<AttentionKind>,
    /// Whether dropout stores its masks [default: stored]
    #[arg(long, value_name = "HOW", conflicts_with_all = ["profile", "measure"])]
    pub masks: Option<MaskKind>,
}

/// The model of `gpt train`, which only --measure knows.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("preset", |arg| for_measuring(arg)))]
#[command(mut_arg("layers", |arg| for_measuring(arg)))]
#[command(mut_arg("width", |arg| for_measuring(arg)))]
#[command(mut_arg("heads", |arg| for_measuring(arg)))]
#[command(mut_arg("context", |arg| for_measuring(arg)))]
#[command(mut_arg("vocabulary", |arg| for_measuring(arg)))]
#[command(mut_arg("pad_vocabulary", |arg| for_measuring(arg)))]
#[command(mut_arg("dropout", |arg| for_measuring(arg)))]
#[command(mut_arg("activation", |arg| for_measuring(arg)))]
#[command(mut_arg("norm_epsilon", |arg| for_measuring(arg)))]
pub struct MeasuredArgs {
    /// Sizes of the model.
    #[command(flatten)]
    pub sizes: ModelArgs,
    /// The device that is measured: flex, wgpu, cuda:0
    #[arg(long, value_name = "NAME", default_value = "flex", help_heading = MEASURED)]
    #[arg(conflicts_with_all = ["model", "profile"])]
    pub device: DeviceName,
    /// Bandwidth and latency of the links between stages: 1GB/s,50us [default: within a process]
    #[arg(long, value_name = "SPEED", help_heading = MEASURED)]
    #[arg(conflicts_with_all = ["model", "profile"])]
    pub link: Option<LinkSpeed>,
    /// The same of the links between the ranks of a stage
    #[arg(long, value_name = "SPEED", help_heading = MEASURED)]
    #[arg(conflicts_with_all = ["model", "profile"])]
    pub collective_link: Option<LinkSpeed>,
    /// For a run in which every stage, and every rank of one, computes on one core of its own
    #[arg(long, help_heading = MEASURED)]
    #[arg(conflicts_with_all = ["model", "profile"])]
    pub one_core_each: bool,
}

const MEASURED: &str = "With --measure";

fn for_measuring(arg: clap::Arg) -> clap::Arg {
    let arg = arg.conflicts_with_all(["model", "profile"]);
    arg.help_heading(MEASURED)
}

/// How a GPT's attention goes about its scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttentionKind {
    /// They are stored.
    Stored,
    /// They are never stored (FlashAttention).
    Flash,
}

/// How dropout remembers what it dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MaskKind {
    /// It stores a byte an element.
    Stored,
    /// It counts, and makes them anew.
    Counted,
}

/// How the model is trained, and what may be done about its memory.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Plan")]
pub struct SetupArgs {
    /// Pipeline stages
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count())]
    pub pp: usize,
    /// Micro-batches of a step
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count())]
    pub micro_batches: usize,
    /// What a device may hold: 38GiB, 300MiB [default: all of the device's memory]
    #[arg(long, value_name = "BYTES", value_parser = budget)]
    pub budget: Option<Bytes>,
    /// Who decides
    #[arg(long, value_name = "NAME", default_value = "heu", value_parser = strategy())]
    pub strategy: String,
    /// Order of work: gpipe or 1f1b
    #[arg(long, value_name = "KIND", default_value_t = Kind::OneFOneB)]
    pub schedule: Kind,
    /// Idle time that may host recompute: all, none, or F1,F2,B1,B2,SEND,RECV,BUBBLE
    #[arg(long, value_name = "NAME,..", default_value = "all", value_parser = windows)]
    pub windows: Windows,
    /// Compute gradients of weights beside collectives, as Megatron-LM does
    #[arg(long)]
    pub overlap_weight_gradients: bool,
    /// A stage stands still until its messages have left
    #[arg(long)]
    pub blocking_sends: bool,
    /// What an integer program may take for a stage (checkmate, opt)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub time_limit: Duration,
}

/// What is written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Write the plan to a file, for `gpt simulate` and `gpt train --plan`
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not compare with other strategies
    #[arg(long)]
    pub no_compare: bool,
    /// Write the model's costs to a file
    #[arg(long, value_name = "FILE")]
    pub write_profile: Option<PathBuf>,
    /// Write the machines to a file
    #[arg(long, value_name = "FILE")]
    pub write_cluster: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use lynx_burn::plan::cluster::Window;

    use super::super::{one_line, plan_args};
    use super::*;

    #[test]
    fn the_options_of_a_plan_are_read() {
        let args = "--model 7b --cluster a100-40-pcie --tp 4 --pp 2 --micro-batch 4 \
                    --micro-batches 16 --budget 38GiB --strategy opt --windows B1,B2 --masks counted";
        let args = plan_args(args).expect("valid");
        assert_eq!(args.source.model.as_deref(), Some("7b"));
        assert_eq!(
            (args.source.tp, args.source.micro_batch),
            (Some(4), Some(4))
        );
        assert_eq!((args.setup.pp, args.setup.micro_batches), (2, 16));
        assert_eq!(args.setup.budget, Some(Bytes(38 << 30)));
        assert_eq!(args.setup.windows.0, [Window::B1, Window::B2]);
        assert_eq!(args.gpt.masks, Some(MaskKind::Counted));
        assert_eq!(args.setup.time_limit, Duration::from_secs(10));
    }

    #[test]
    fn options_of_one_source_are_refused_with_another() {
        let cases = [
            ("", "--model"),
            ("--model 7b", "--cluster"),
            ("--model 7b --measure", "--measure"),
            ("--profile p.json --cluster h200 --tp 2", "--tp"),
            (
                "--profile p.json --cluster h200 --precision f32",
                "--precision",
            ),
            ("--measure --masks counted", "--masks"),
            ("--model 7b --cluster h200 --width 64", "--width"),
            ("--model 7b --cluster h200 --device flex", "--device"),
            ("--model 7b --cluster h200 --preset gpt2", "--preset"),
            ("--model gpt3 --cluster h200", "gpt2-xl"),
            ("--model 7b --cluster h200 --link 1GB/s", "--link"),
        ];
        for (arguments, named) in cases {
            let error = one_line(&plan_args(arguments).expect_err(arguments));
            assert!(error.contains(named), "{arguments}: {error}");
            assert!(!error.contains('\n'), "{arguments}: {error}");
        }
        let all = "--measure --width 64 --device flex --micro-batch 2 --tp 2 --link 1GB/s,50us \
                   --collective-link 2GB/s --one-core-each";
        plan_args(all).expect("all of measuring");
    }
}
