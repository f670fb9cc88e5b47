//! Options of `gpt train` about a memory budget.

use std::time::Duration;

use clap::Args;
use lynx_burn::units::Bytes;
use serde::{Deserialize, Serialize};

use super::values::{budget, duration, strategy};

/// A memory budget, within which a run is planned.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Memory budget")]
pub struct BudgetArgs {
    /// Measure the model here, plan what is recomputed where such that no device holds more than
    /// this, train so, and tell at the end what came of the plan: 300MiB
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = budget,
        conflicts_with_all = ["plan", "policy", "layers_per_stage"]
    )]
    pub memory_budget: Option<Bytes>,
    /// Who decides
    #[arg(long, value_name = "NAME", default_value = "heu", value_parser = strategy())]
    pub strategy: String,
    /// What an integer program may take for a stage (checkmate, opt)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub time_limit: Duration,
    /// Measure and plan again, between two steps, when steps take by this share more or less than
    /// planned
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    pub replan_above: f64,
    /// The least steps between two plans; 0 to keep the first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub replan_every: u64,
}

impl Default for BudgetArgs {
    /// No budget: what saves hold that were written before there were any.
    fn default() -> Self {
        Self {
            memory_budget: None,
            strategy: "heu".to_owned(),
            time_limit: Duration::from_secs(10),
            replan_above: 0.2,
            replan_every: 50,
        }
    }
}

impl BudgetArgs {
    /// Its options but for the budget itself: they mean nothing without one.
    pub(crate) const OTHERS: [&'static str; 4] =
        ["strategy", "time_limit", "replan_above", "replan_every"];
}
