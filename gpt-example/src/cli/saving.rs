//! Options of `gpt train` about saves.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::values::count;

/// How a run can be gone on with.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Saves")]
pub struct SavingArgs {
    /// Go on with a run from its last save: its folder, or one save's. Options that are not given
    /// are those of the run; stages, schedule and policy may be others
    #[arg(long, value_name = "FOLDER")]
    pub resume: Option<PathBuf>,
    /// Begin with these weights: a .safetensors file of Hugging Face's GPT-2. Its shapes give the
    /// sizes, a config.json beside it (or --heads) the rest
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    #[serde(default)]
    pub init_from: Option<PathBuf>,
    /// Steps between two saves; 0 for none but the one when the run ends or Ctrl-C is pressed
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub save_every: u64,
    /// Saves that are kept, the newest
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count())]
    pub keep: usize,
}
