//! Why a benchmark has no result.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use lynx_burn::measure::MeasureError;
use lynx_burn::plan::cluster::UnknownCluster;
use lynx_burn::plan::layout::LayoutError;
use lynx_burn::plan::planner::{PlanError, UnknownStrategy};
use lynx_burn::plan::sim::SimError;
use lynx_burn::{BuildError, TrainError};

use super::SETTINGS;
use crate::config::ConfigError;
use crate::files::WriteError;

/// A benchmark without a result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Not a name.
    #[error("no setting is named {name:?}; there are {}", SETTINGS.join(", "))]
    UnknownSetting {
        /// What was asked for.
        name: String,
    },
    /// Not a model.
    #[error(transparent)]
    Model(#[from] ConfigError),
    /// Not a machine.
    #[error(transparent)]
    Cluster(UnknownCluster),
    /// Not a strategy.
    #[error(transparent)]
    Strategy(#[from] UnknownStrategy),
    /// Segments cannot be measured.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// No chain.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan that cannot be timed.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A plan that cannot be run.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A step that failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Nothing to compare.
    #[error("{setting}: {strategy} does not give the gradients of {reference}: {what} differs")]
    Differs {
        /// The setting.
        setting: String,
        /// The strategy at fault.
        strategy: String,
        /// What it was compared with.
        reference: String,
        /// The parameter, or the losses.
        what: String,
    },
    /// The program does not start once more.
    #[error("cannot run this program in a process of its own: {0}")]
    Again(io::Error),
    /// It was started and failed, and has said why.
    #[error("the benchmark did not finish ({0})")]
    Failed(ExitStatus),
    /// No pool of threads.
    #[error("cannot start a thread: {0}")]
    Threads(rayon::ThreadPoolBuildError),
    /// A folder that cannot be made.
    #[error("cannot create the folder {}: {error}", path.display())]
    Folder {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A picture that cannot be drawn.
    #[error("cannot draw {picture}: {reason}")]
    Picture {
        /// Which one.
        picture: String,
        /// Why.
        reason: String,
    },
    /// A file that cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl BenchError {
    /// 2 for what another command line would mend, 1 for what went wrong on the way.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownSetting { .. } | Self::Folder { .. } | Self::Write(_) => 2,
            Self::Failed(status) => status
                .code()
                .and_then(|c| u8::try_from(c).ok())
                .unwrap_or(1),
            _ => 1,
        }
    }
}
