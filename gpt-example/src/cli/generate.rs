//! Options of `gpt generate`.

use std::path::PathBuf;

use clap::Args;

use super::values::count;
use crate::device::DeviceName;

/// All options of writing.
#[derive(Clone, Debug, Args)]
pub struct GenerateArgs {
    /// The folder of a run, whose last save is taken, or of one save
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Text to go on from [default: an empty line]
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Tokens to write; without a tokenizer they are bytes
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = count())]
    pub length: usize,
    /// Boldness; 0 always takes the likeliest token, 1 the model's own odds
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    pub temperature: f64,
    /// Choose among the likeliest N only [default: all]
    #[arg(long, value_name = "N", value_parser = count())]
    pub top_k: Option<usize>,
    /// Seed of the choices: the same seed writes the same text
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Device: flex, wgpu, cuda:0
    #[arg(long, value_name = "NAME", default_value = "flex")]
    pub device: DeviceName,
}
