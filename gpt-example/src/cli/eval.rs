//! Options of `gpt eval`.

use std::path::PathBuf;

use clap::Args;

use super::values::count;
use crate::device::DeviceName;

/// All options of an evaluation.
#[derive(Clone, Debug, Args)]
pub struct EvalArgs {
    /// The folder of a run, whose last save is taken, or of one save
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Text to predict, all of it: a file, or a folder with .txt, .md and .rs files [default: the
    /// tenth of the run's own text that it did not learn]
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Windows of text that are predicted at a time; more need more memory
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = count())]
    pub batch: usize,
    /// Device: flex, wgpu, cuda:0
    #[arg(long, value_name = "NAME", default_value = "flex")]
    pub device: DeviceName,
}
