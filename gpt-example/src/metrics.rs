//! The run folder: what was asked for, and what came of it.
//!
//! `config.json` is written once, `metrics.jsonl` grows by a line for each logged step and can be
//! read while the run goes on. Files of an earlier run in the same folder are replaced.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// One logged step.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Optimizer steps taken.
    pub step: u64,
    /// The step's mean loss in nats a token; null if it was not a number.
    pub train_loss: f64,
    /// Mean loss over the validation windows, where it was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub val_loss: Option<f64>,
    /// Training tokens a second since the record before, evaluations left out.
    pub tokens_per_s: f64,
    /// The most bytes of boundaries and tapes that each stage kept at one time in this step.
    pub retained_peak_bytes: Vec<u64>,
    /// Segments recomputed in this step, over all stages and micro-batches.
    pub recomputed_segments: u64,
    /// The step's learning rate.
    pub learning_rate: f64,
    /// Norm of the gradients before clipping, if they were clipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<f64>,
    /// False if the update was left out because of a value that was not a number.
    pub applied: bool,
    /// Seconds since training began.
    pub elapsed_s: f64,
}

/// A run folder that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct RunFolderError {
    path: PathBuf,
    source: io::Error,
}

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: File,
}

impl RunFolder {
    /// Creates the folder, if it is not there, and both files.
    ///
    /// # Errors
    ///
    /// If the system does not allow it.
    pub fn create(path: &Path, config: &impl Serialize) -> Result<Self, RunFolderError> {
        let failed = |path: &Path, source| RunFolderError {
            path: path.to_owned(),
            source,
        };
        fs::create_dir_all(path).map_err(|source| failed(path, source))?;
        let file = path.join("config.json");
        serde_json::to_string_pretty(config)
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&file, text + "\n"))
            .map_err(|source| failed(&file, source))?;
        let file = path.join("metrics.jsonl");
        let metrics = File::create(&file).map_err(|source| failed(&file, source))?;
        Ok(Self {
            path: path.to_owned(),
            metrics,
        })
    }

    /// A folder below `runs` that is named after the second in which the run began.
    pub fn default_path() -> PathBuf {
        let second = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Path::new("runs").join(second.to_string())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line to `metrics.jsonl`.
    ///
    /// # Errors
    ///
    /// If the disk is full, for example.
    pub fn record(&mut self, record: &Record) -> Result<(), RunFolderError> {
        serde_json::to_string(record)
            .map_err(io::Error::from)
            .and_then(|line| writeln!(self.metrics, "{line}"))
            .map_err(|source| RunFolderError {
                path: self.path.join("metrics.jsonl"),
                source,
            })
    }
}
