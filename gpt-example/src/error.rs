//! Why a run ends early.

use std::{fmt, io};

use lynx_burn::{BuildError, LoadError, ReplanError, SaveError, TrainError};

use crate::bench::BenchError;
use crate::check::SettingsError;
use crate::config::ConfigError;
use crate::dashboard::DashboardError;
use crate::data::DataError;
use crate::device::DeviceError;
use crate::export::ExportError;
use crate::files::WriteError;
use crate::interrupt::ENDED_BY_CTRL_C;
use crate::plan::PlanningError;
use crate::planned::PlannedError;
use crate::pretrained::PretrainedError;
use crate::resume::ResumeError;
use crate::simulate::SimulateError;
use crate::tokenizer::TokenizerError;

/// A run that did not finish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Options contradict each other.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// There is no text to learn from.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Text does not become tokens.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// There are no weights to begin with.
    #[error(transparent)]
    Pretrained(#[from] PretrainedError),
    /// A model cannot be written for others.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A device is not there.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The model cannot be cut or recomputed like that.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The run folder cannot be written.
    #[error(transparent)]
    Folder(#[from] WriteError),
    /// The state of the run cannot be written.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// There is no state of a run to go on from.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The run cannot be gone on with like that.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// Ctrl-C would not be heard of.
    #[error("cannot listen for Ctrl-C: {0}")]
    Interrupt(#[source] io::Error),
    /// The dashboard cannot be shown, or ended the run.
    #[error(transparent)]
    Dashboard(#[from] DashboardError),
    /// A plan cannot be obeyed.
    #[error(transparent)]
    Planned(#[from] PlannedError),
    /// There is no plan.
    #[error(transparent)]
    Planning(#[from] PlanningError),
    /// A plan cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// A benchmark has no result.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
}

impl From<ConfigError> for RunError {
    fn from(error: ConfigError) -> Self {
        Self::Settings(error.into())
    }
}

impl From<ReplanError> for RunError {
    fn from(error: ReplanError) -> Self {
        match error {
            ReplanError::Build(error) => error.into(),
            ReplanError::Train(error) => error.into(),
        }
    }
}

impl RunError {
    /// 2 for what another command line would mend, 3 for a budget that is too small, 1 for what
    /// went wrong on the way, and what shells report after Ctrl-C for a run that was ended at once.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Train(_) | Self::Load(LoadError::Train(_)) | Self::Save(SaveError::Train(_)) => 1,
            Self::Dashboard(DashboardError::Killed) => ENDED_BY_CTRL_C,
            Self::Planning(error) => error.exit_code(),
            Self::Bench(error) => error.exit_code(),
            _ => 2,
        }
    }
}

/// A message without what follows its first line: hints, or where in a file a parser stood.
pub(crate) fn first_line(text: &impl fmt::Display) -> String {
    let text = text.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
