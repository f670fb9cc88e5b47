//! The run folder: what was asked for, and what came of it.
//!
//! `config.json` is written once, `tokenizer.json` if tokens are not bytes,
//! `plan.json` for each plan made under a memory budget, `metrics.jsonl` grows by a line for each logged step and can be
//! read while the run goes on. Files of an earlier run in the same folder are replaced, unless it is
//! gone on with: then its lines up to the step of its save stay.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lynx_burn::plan::planner::Plan;
use serde::{Deserialize, Deserializer, Serialize};

use crate::files::{self, WriteError};

const METRICS: &str = "metrics.jsonl";

/// A number that was written as null because it was none.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Of a record, what tells whether it is still wanted.
#[derive(Deserialize)]
struct StepOf {
    step: u64,
}

/// One logged step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Optimizer steps taken.
    pub step: u64,
    /// The step's mean loss in nats a token; null if it was not a number.
    #[serde(deserialize_with = "number")]
    pub train_loss: f64,
    /// Mean loss over the validation windows, where it was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_loss: Option<f64>,
    /// Training tokens a second since the record before, evaluations left out.
    pub tokens_per_s: f64,
    /// The most bytes of boundaries and tapes that each stage, and each of its ranks, kept at one
    /// time in this step.
    pub retained_peak_bytes: Vec<u64>,
    /// Seconds of the step's forwards and backwards.
    #[serde(default)]
    pub step_s: f64,
    /// Seconds of recompute that nothing hid, over all stages and ranks.
    #[serde(default)]
    pub exposed_s: f64,
    /// Seconds of recompute in waits, likewise.
    #[serde(default)]
    pub hidden_s: f64,
    /// Segments recomputed in this step, over all stages and micro-batches.
    pub recomputed_segments: u64,
    /// The step's learning rate.
    pub learning_rate: f64,
    /// Norm of the gradients before clipping, if they were clipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<f64>,
    /// False if the update was left out because of a value that was not a number.
    pub applied: bool,
    /// Seconds of training, those before the run was gone on with among them.
    pub elapsed_s: f64,
}

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: File,
}

/// What a worker is called whose bytes stand at this place of a record, of so many ranks, stages and
/// replicas. What there is one of is not named.
pub(crate) fn worker_name(
    worker: usize,
    (ranks, stages, replicas): (usize, usize, usize),
) -> String {
    let mut name = match replicas {
        1 => String::new(),
        _ => format!("replica {}, ", worker / ranks / stages),
    };
    name += &format!("stage {}", worker / ranks % stages);
    if ranks > 1 {
        name += &format!(", rank {}", worker % ranks);
    }
    name
}

impl RunFolder {
    /// Creates the folder, if it is not there, and both files.
    ///
    /// # Errors
    ///
    /// If the system does not allow it.
    pub fn create(path: &Path, config: &impl Serialize) -> Result<Self, WriteError> {
        Self::with_records(path, config, "")
    }

    /// Opens the folder of a run that goes on after so many steps, and drops the records of those
    /// that it takes again. A line that a kill left unfinished, and what follows it, are dropped too.
    ///
    /// # Errors
    ///
    /// If the system does not allow it.
    pub fn go_on(path: &Path, config: &impl Serialize, steps: u64) -> Result<Self, WriteError> {
        let records = path.join(METRICS);
        let old = match fs::read_to_string(&records) {
            Ok(old) => old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(WriteError::new(&records)(error)),
        };
        let taken = |line: &&str| {
            serde_json::from_str(line).is_ok_and(|StepOf { step }: StepOf| step <= steps)
        };
        let kept = old.lines().take_while(taken);
        let kept: String = kept.flat_map(|line| [line, "\n"]).collect();
        Self::with_records(path, config, &kept)
    }

    fn with_records(
        path: &Path,
        config: &impl Serialize,
        records: &str,
    ) -> Result<Self, WriteError> {
        fs::create_dir_all(path).map_err(WriteError::new(path))?;
        files::write(&path.join("config.json"), |out| {
            serde_json::to_writer_pretty(&mut *out, config)?;
            writeln!(out)
        })?;
        let file = path.join(METRICS);
        files::write(&file, |out| out.write_all(records.as_bytes()))?;
        let metrics = File::options().append(true).open(&file);
        Ok(Self {
            path: path.to_owned(),
            metrics: metrics.map_err(WriteError::new(&file))?,
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
    pub fn record(&mut self, record: &Record) -> Result<(), WriteError> {
        serde_json::to_string(record)
            .map_err(io::Error::from)
            // In one piece: whoever reads meanwhile sees whole lines.
            .and_then(|line| self.metrics.write_all((line + "\n").as_bytes()))
            .map_err(WriteError::new(&self.path.join(METRICS)))
    }

    /// Writes the plan that the run obeys from here on to `plan.json`.
    ///
    /// # Errors
    ///
    /// If the system does not allow it, or the plan contradicts itself.
    pub fn plan(&self, plan: &Plan) -> Result<(), WriteError> {
        let path = self.path.join("plan.json");
        let text = plan.to_json().map_err(io::Error::other);
        let text = text.map_err(WriteError::new(&path))?;
        files::write(&path, |out| out.write_all(text.as_bytes()))
    }

    /// Keeps a copy of the run's tokenizer in `tokenizer.json`, or none of an earlier run's.
    ///
    /// # Errors
    ///
    /// If the system does not allow it.
    pub fn tokenizer(&self, json: Option<&str>) -> Result<(), WriteError> {
        let path = self.path.join("tokenizer.json");
        match json {
            Some(json) => files::write(&path, |out| out.write_all(json.as_bytes())),
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(WriteError::new(&path)(error))
                }
                _ => Ok(()),
            },
        }
    }

    /// All records of the run, those from before it was gone on with among them. Lines that are none
    /// are left out.
    ///
    /// # Errors
    ///
    /// If the file is not there any more.
    pub fn records(&self) -> Result<Vec<Record>, WriteError> {
        let path = self.path.join(METRICS);
        let text = fs::read_to_string(&path).map_err(WriteError::new(&path))?;
        let lines = text.lines();
        Ok(lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect())
    }

    /// Sees the lines to the disk, before a save that they lead to.
    ///
    /// # Errors
    ///
    /// If the disk is full, for example.
    pub fn sync(&self) -> Result<(), WriteError> {
        self.metrics
            .sync_data()
            .map_err(WriteError::new(&self.path.join(METRICS)))
    }
}

/// Tokens and the time they took.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    tokens: usize,
    time: Duration,
}

impl Meter {
    pub(crate) fn add(&mut self, tokens: usize, time: Duration) {
        self.tokens += tokens;
        self.time += time;
    }

    pub(crate) fn rate(&self) -> f64 {
        self.tokens as f64 / self.time.as_secs_f64().max(1e-9)
    }
}
