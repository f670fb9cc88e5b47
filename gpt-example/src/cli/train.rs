//! Options of `gpt train`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use lynx_burn::LinkSpeed;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::profile::GptSize;
use lynx_burn::plan::schedule::Kind;
use serde::{Deserialize, Serialize};

use super::budget::BudgetArgs;
use super::overlap::OverlapArgs;
use super::saving::SavingArgs;
use super::values::count;
use crate::config::{Activation, GptConfig, Modules, epsilon};
use crate::device::DeviceName;

/// All options of a training run.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct TrainArgs {
    /// Sizes of the model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// How the model is cut and what is recomputed.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Who shares a stage, and what it does while it waits.
    #[command(flatten)]
    #[serde(default)]
    pub overlap: OverlapArgs,
    /// What memory there is.
    #[command(flatten)]
    #[serde(default)]
    pub budget: BudgetArgs,
    /// How it learns.
    #[command(flatten)]
    pub training: TrainingArgs,
    /// What it learns from and what is written.
    #[command(flatten)]
    pub output: OutputArgs,
    /// How it can be gone on with.
    #[command(flatten)]
    pub saving: SavingArgs,
    /// Show Burn's training dashboard, where q asks whether to stop
    #[arg(long, help_heading = "Data and output")]
    #[serde(skip)]
    pub tui: bool,
    /// The options that were written out, by their names here; a run that goes on takes the others
    /// from its save.
    #[arg(skip)]
    #[serde(skip)]
    pub given: BTreeSet<String>,
}

/// Sizes of the model.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Sizes by name; options beside it win. GPT-2's own are gpt2 to gpt2-xl, `nano` is what is
    /// trained if nothing is said
    #[arg(long, value_name = "NAME", value_parser = GptSize::NAMES)]
    #[serde(default)]
    pub preset: Option<String>,
    /// Transformer layers
    #[arg(long, value_name = "N", default_value_t = GptConfig::NANO.layers)]
    pub layers: usize,
    /// Width of the residual stream
    #[arg(long, value_name = "N", default_value_t = GptConfig::NANO.d_model)]
    pub width: usize,
    /// Attention heads; must divide the width
    #[arg(long, value_name = "N", default_value_t = GptConfig::NANO.heads)]
    pub heads: usize,
    /// The most tokens that a prediction looks at; without a tokenizer they are bytes
    #[arg(long, value_name = "N", default_value_t = GptConfig::NANO.context)]
    pub context: usize,
    /// Different tokens [default: the tokenizer's, or 256 for bytes]
    #[arg(long, value_name = "N")]
    #[serde(default)]
    pub vocabulary: Option<usize>,
    /// Make the vocabulary a multiple of N, so that N ranks can share it, with rows that stand for
    /// no token and are never predicted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count())]
    #[serde(default = "one")]
    pub pad_vocabulary: usize,
    /// Probability of dropping an activation in training
    #[arg(long, value_name = "P", default_value_t = GptConfig::NANO.dropout)]
    pub dropout: f64,
    /// Between the products of the MLP; GPT-2 was trained with gelu-tanh
    #[arg(long, value_enum, value_name = "NAME", default_value_t = GptConfig::NANO.activation)]
    #[serde(default)]
    pub activation: Activation,
    /// What norms add to the variance
    #[arg(long, value_name = "E", default_value_t = GptConfig::NANO.norm_epsilon)]
    #[serde(default = "epsilon")]
    pub norm_epsilon: f64,
    /// Whose modules compute what is not a matrix product
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Modules::Lynx)]
    pub modules: Modules,
}

fn one() -> usize {
    1
}

/// How the model is cut and what is recomputed.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Pipeline")]
pub struct PipelineArgs {
    /// Obey a plan made by `gpt plan`: its stages, ranks, schedule, micro-batches, policy, and
    /// what it recomputes in which wait
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "stages", "layers_per_stage", "micro_batches", "schedule", "policy", "tp"
        ]
    )]
    pub plan: Option<PathBuf>,
    /// Pipeline stages, even in layers [default: 2, or 1 for a model of one layer]
    #[arg(long, value_name = "N")]
    pub stages: Option<usize>,
    /// Layers of each stage, for an uneven split: 3,1
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    pub layers_per_stage: Option<Vec<usize>>,
    /// Parts that each batch is split into, of all replicas together
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count())]
    pub micro_batches: usize,
    /// Order of work: gpipe or 1f1b
    #[arg(long, value_name = "KIND", default_value_t = Kind::OneFOneB)]
    pub schedule: Kind,
    /// What is recomputed: retain, recompute, every:K, uniform:K, selective:NAME,NAME or
    /// hand:KKR../RRK.. (K keeps a segment, R recomputes it, S does so from a kept input of its own,
    /// J together with the one before it; / separates stages). Segments are embed, then for each
    /// layer qkv, attention, projection, mlp-in and mlp-out, then head
    #[arg(long, default_value_t = Policy::RecomputeAll)]
    pub policy: Policy,
    /// Bandwidth and latency of the links between stages, emulated: 1GB/s,50us [default: none]
    #[arg(long, value_name = "SPEED")]
    pub link: Option<LinkSpeed>,
    /// One device for all stages, or one for each: flex, wgpu, cuda:0
    #[arg(
        long,
        value_name = "NAME,..",
        value_delimiter = ',',
        default_value = "flex"
    )]
    pub device: Vec<DeviceName>,
}

/// How the model learns.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Training")]
pub struct TrainingArgs {
    /// Optimizer steps; 0 saves the model as it begins
    #[arg(long, value_name = "N", default_value_t = 700)]
    pub steps: u64,
    /// Windows of text in each step [default: 8, or what a plan asks for]
    #[arg(long, value_name = "N", value_parser = count())]
    pub batch: Option<usize>,
    /// Seed of initial values, batches, dropout and the sample
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Learning rate at the end of the warm-up
    #[arg(long, value_name = "RATE", default_value_t = 3e-3)]
    pub learning_rate: f64,
    /// Learning rate at the last step [default: a tenth of the learning rate]
    #[arg(long, value_name = "RATE")]
    pub min_learning_rate: Option<f64>,
    /// Steps in which the learning rate rises [default: a twentieth of the steps]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Weight decay of matrices; biases and norms have none
    #[arg(long, value_name = "W", default_value_t = 0.1)]
    pub weight_decay: f64,
    /// Largest norm of the gradients; 0 for no limit
    #[arg(long, value_name = "NORM", default_value_t = 1.0)]
    pub clip: f64,
    /// Leave an update out, and go on, when a loss or gradient is not a number
    #[arg(long)]
    pub skip_non_finite: bool,
}

/// What the model learns from and what is written.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Data and output")]
pub struct OutputArgs {
    /// Text to learn: a file, or a folder with .txt, .md and .rs files [default: Cicero]
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Learn tokens instead of bytes: a tokenizer.json, Hugging Face's or one of `gpt tokenizer
    /// train`. The run keeps a copy
    #[arg(long, value_name = "FILE")]
    #[serde(default)]
    pub tokenizer: Option<PathBuf>,
    /// Folder for config.json and metrics.jsonl, created if missing [default: runs/SECOND]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Steps between two evaluations on the validation text
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub eval_every: u64,
    /// Batches of an evaluation
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count())]
    pub eval_batches: usize,
    /// Steps between two lines of metrics
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub log_every: u64,
    /// Tokens of text to write at the end
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub sample: usize,
    /// Boldness of that text; 0 always takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    pub temperature: f64,
}

impl TrainingArgs {
    /// Windows of text in each step.
    pub fn batch(&self) -> usize {
        self.batch.unwrap_or(8)
    }
}
