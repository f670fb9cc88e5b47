//! Why a run ends early.

use lynx_burn::{BuildError, TrainError};

use crate::check::SettingsError;
use crate::config::ConfigError;
use crate::data::DataError;
use crate::device::DeviceError;
use crate::metrics::RunFolderError;

/// A run that did not finish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Options contradict each other.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// There is no text to learn from.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A device is not there.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The model cannot be cut or recomputed like that.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The run folder cannot be written.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
}

impl From<ConfigError> for RunError {
    fn from(error: ConfigError) -> Self {
        Self::Settings(error.into())
    }
}

impl RunError {
    /// 2 for what another command line would mend, 1 for what went wrong on the way.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Train(_) => 1,
            _ => 2,
        }
    }
}
