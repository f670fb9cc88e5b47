//! Options of `gpt export`.

use std::path::PathBuf;

use clap::Args;

/// What is exported, and where to.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// The folder of a run, whose last save is taken, or of one save
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// File to write, model.safetensors in a folder of its own say: config.json, and tokenizer.json if
    /// the run has one, are written beside it
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}
