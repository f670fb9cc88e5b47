//! Saves, `--resume`, Ctrl-C, `gpt generate` and `gpt eval` as a user meets them.

#[path = "../common/mod.rs"]
mod common;
mod ended;
mod resumed;
mod used;

use std::fs;
use std::path::{Path, PathBuf};

use common::metrics;
use serde_json::Value;

const TINY: &str = "--layers 4 --width 32 --heads 2 --context 16 --batch 8 --micro-batches 4 \
                    --warmup 2 --log-every 1 --eval-batches 2 --sample 0 --dropout 0.1";

/// The folders of a run's saves, oldest first.
fn saves(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run.join("saves")).expect("saves");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("read").path())
        // What a kill leaves of a save is none.
        .filter(|path| path.extension().is_none_or(|ending| ending != "part"))
        .collect();
    found.sort();
    found
}

/// What must not depend on how often a run was broken: steps, losses, rates and norms.
fn course(run: &Path) -> Vec<Value> {
    let mut records = metrics(run);
    for record in &mut records {
        let record = record.as_object_mut().expect("an object");
        // They tell of time, or of how the model is cut.
        for name in [
            "tokens_per_s",
            "elapsed_s",
            "retained_peak_bytes",
            "recomputed_segments",
            "step_s",
            "exposed_s",
            "hidden_s",
        ] {
            record.remove(name);
        }
    }
    records
}
