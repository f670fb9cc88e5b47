//! What tests of the program share.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the program in `folder`, where the default run folder then lies too.
pub(crate) fn gpt(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpt"))
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .output()
        .expect("the program starts")
}

pub(crate) fn metrics(folder: &Path) -> Vec<Value> {
    fs::read_to_string(folder.join("metrics.jsonl"))
        .expect("metrics are written")
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is an object"))
        .collect()
}

pub(crate) fn number(record: &Value, name: &str) -> f64 {
    record[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} is a number in {record}"))
}
