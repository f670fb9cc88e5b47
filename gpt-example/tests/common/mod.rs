//! What tests of the program share.

#![allow(dead_code, reason = "each test program uses a part of it")]

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

/// Training losses of a run, of the steps that were recorded.
pub(crate) fn losses(folder: &Path) -> Vec<f64> {
    let records = metrics(folder);
    let losses = records.iter().map(|record| number(record, "train_loss"));
    losses.collect()
}

/// What a run says that ends well.
pub(crate) fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file's contents.
pub(crate) fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

/// Wrong input: exit code 2 and one line that names what is wrong.
pub(crate) fn refused(folder: &Path, arguments: &str, named: &str) {
    let output = gpt(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {error}");
    assert_eq!(error.lines().count(), 1, "{arguments}: {error}");
    assert!(error.contains(named), "{arguments}: {error}");
    assert!(!error.contains("panicked"), "{arguments}: {error}");
    assert!(output.stdout.is_empty(), "{arguments}: {output:?}");
}
