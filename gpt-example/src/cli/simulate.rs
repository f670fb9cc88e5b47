//! Options of `gpt simulate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use lynx_burn::plan::schedule::Kind;

use super::values::count;

/// All options of a simulation.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["plan", "schedule"])))]
pub struct SimulateArgs {
    /// A plan made by `gpt plan`
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Instead of a plan, an order of work (gpipe, 1f1b, interleaved:2, zb-h1) with even stages: a
    /// forward takes 1 ms, a backward 2 ms, and messages nothing
    #[arg(long, value_name = "KIND")]
    pub schedule: Option<Kind>,
    /// Its stages
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count())]
    #[arg(conflicts_with = "plan")]
    pub pp: usize,
    /// Its micro-batches
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count())]
    #[arg(conflicts_with = "plan")]
    pub micro_batches: usize,
    /// Draw the timeline to a file, for a browser
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the timeline to a file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}
