//! Options of `gpt bench`.

use std::path::PathBuf;

use clap::Args;

/// All options of a benchmark.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Settings to run: tensor-45, tensor-45-burn, tensor-30, pipeline-30, alone [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub settings: Vec<String>,
    /// Rounds in which all strategies take turns
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = super::values::count())]
    pub rounds: usize,
    /// Rounds for each cell of the sweep over communication and budget; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub sweep_rounds: usize,
    /// Folder for tables and pictures, created if missing
    #[arg(long, value_name = "FOLDER", default_value = "runs/bench")]
    pub out: PathBuf,
}
