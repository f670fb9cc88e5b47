//! Options about ranks, replicas, links, and what is recomputed in waits.

use clap::{Args, ValueEnum};
use lynx_burn::{LinkSpeed, Overlap};
use serde::{Deserialize, Serialize};

use super::values::count;

/// Who shares a stage, and what it does while it waits.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Ranks, replicas, links and waits")]
#[serde(default)]
pub struct OverlapArgs {
    /// Ranks that share each stage, its heads, its MLPs and the vocabulary
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count())]
    pub tp: usize,
    /// Bandwidth and latency of the links between the ranks of a stage, emulated: 1GB/s,50us
    /// [default: none]
    #[arg(long, value_name = "SPEED")]
    pub collective_link: Option<LinkSpeed>,
    /// Replicas of the whole pipeline, which share the micro-batches of each step evenly
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count())]
    pub replicas: usize,
    /// Bandwidth and latency of the links between the replicas of a stage, emulated: 1GB/s,50us
    /// [default: none]
    #[arg(long, value_name = "SPEED")]
    pub replica_link: Option<LinkSpeed>,
    /// What a stage recomputes while it waits [default: planned with a plan or a memory budget,
    /// otherwise never]
    #[arg(long, value_name = "WHAT")]
    pub overlap: Option<OverlapKind>,
    /// Every stage, every rank of one, and every replica computes on one core of its own
    #[arg(long)]
    pub one_core_each: bool,
}

impl Default for OverlapArgs {
    /// One rank and one replica: what saves hold that were written before there were others.
    fn default() -> Self {
        Self {
            tp: 1,
            collective_link: None,
            replicas: 1,
            replica_link: None,
            overlap: None,
            one_core_each: false,
        }
    }
}

/// What a stage recomputes while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlapKind {
    /// Nothing: all recompute is on demand.
    Never,
    /// What the plan says.
    Planned,
    /// Whatever the next backward needs and memory allows.
    Opportunistic,
}

impl From<OverlapKind> for Overlap {
    fn from(kind: OverlapKind) -> Self {
        match kind {
            OverlapKind::Never => Self::Never,
            OverlapKind::Planned => Self::Planned,
            OverlapKind::Opportunistic => Self::Opportunistic,
        }
    }
}
