//! Why there is no plan, or none was written.

use std::path::PathBuf;

use lynx_burn::measure::MeasureError;
use lynx_burn::plan::cluster::{ClusterError, FileError, JsonError, UnknownCluster};
use lynx_burn::plan::planner::{PlanError, UnknownStrategy};
use lynx_burn::plan::profile::{ProfileError, SetupError, UnknownSize};

use crate::check::SettingsError;
use crate::config::ConfigError;
use crate::device::DeviceError;
use crate::files::WriteError;

/// A plan that was not made.
#[derive(Debug, thiserror::Error)]
pub enum PlanningError {
    /// No such model.
    #[error(transparent)]
    Size(#[from] UnknownSize),
    /// A model that cannot be split so.
    #[error(transparent)]
    Gpt(#[from] SetupError),
    /// Neither a name nor a file.
    #[error("{error}, and there is no file {}", path.display())]
    Cluster {
        /// Why it is no name.
        error: UnknownCluster,
        /// What is no file.
        path: PathBuf,
    },
    /// No machines in a file.
    #[error(transparent)]
    ClusterFile(#[from] FileError<ClusterError>),
    /// No profile in a file.
    #[error(transparent)]
    ProfileFile(#[from] FileError<ProfileError>),
    /// The system gave no thread to measure on.
    #[error("cannot start a thread to measure on: {0}")]
    Threads(#[source] rayon::ThreadPoolBuildError),
    /// A model that cannot be measured.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A model that is none.
    #[error(transparent)]
    Model(#[from] ConfigError),
    /// A device is not there.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Measuring failed.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// No such strategy.
    #[error(transparent)]
    Strategy(#[from] UnknownStrategy),
    /// The budget is too small; what would fit is part of the message.
    #[error("{0}")]
    Infeasible(String),
    /// No plan for another reason.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan that cannot be a file.
    #[error(transparent)]
    PlanText(#[from] JsonError<PlanError>),
    /// A profile that cannot be a file.
    #[error(transparent)]
    ProfileText(#[from] JsonError<ProfileError>),
    /// Machines that cannot be a file.
    #[error(transparent)]
    ClusterText(#[from] JsonError<ClusterError>),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl PlanningError {
    /// 3 where the budget is too small, 2 for what another command line would mend, 1 for what
    /// went wrong on the way.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Infeasible(_) => 3,
            Self::Measure(_) | Self::Threads(_) => 1,
            _ => 2,
        }
    }
}
