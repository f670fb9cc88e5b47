//! The program as a user meets it: exit codes, files, messages.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{gpt, losses, metrics, number, refused, said};
use serde_json::Value;

/// A model that learns something within a second or two.
const TINY: &str = "--layers 2 --width 32 --heads 2 --context 16 --batch 8 --micro-batches 2 \
                    --warmup 2 --log-every 5 --eval-batches 2 --sample 20 --dropout 0.1";

#[test]
fn a_run_learns_writes_its_metrics_and_says_how_it_went() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = format!("{TINY} --steps 40 --eval-every 20 --out here/there");
    let output = gpt(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(said.contains("unigram entropy"), "{said}");
    assert!(said.contains("2 stages"), "{said}");

    let run = folder.path().join("here/there");
    let records = metrics(&run);
    let steps: Vec<f64> = records.iter().map(|r| number(r, "step")).collect();
    assert_eq!(steps, [1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]);
    for record in &records {
        assert!(number(record, "tokens_per_s") > 0.0);
        let retained = record["retained_peak_bytes"].as_array().expect("a list");
        assert_eq!(retained.len(), 2);
        assert!(
            retained.iter().all(|bytes| bytes.as_u64() > Some(0)),
            "{record}"
        );
        // 12 segments, each once for either micro-batch.
        assert_eq!(number(record, "recomputed_segments"), 24.0, "{record}");
    }
    let evaluated: BTreeSet<u64> = records
        .iter()
        .filter(|record| record["val_loss"].is_number())
        .map(|record| number(record, "step") as u64)
        .collect();
    assert_eq!(evaluated, BTreeSet::from([20, 40]));
    let loss = |record: &Value| number(record, "train_loss");
    assert!(loss(&records[8]) < loss(&records[0]) - 1.0, "{records:?}");
    assert!(number(&records[8], "val_loss") < 256f64.ln() - 1.0);

    let config = fs::read_to_string(run.join("config.json")).expect("written");
    let config: Value = serde_json::from_str(&config).expect("an object");
    assert_eq!(config["layers_per_stage"], serde_json::json!([1, 1]));
    assert_eq!(config["options"]["pipeline"]["policy"], "recompute");
}

#[test]
fn losses_do_not_depend_on_stages_schedule_or_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |cut: &str| {
        let arguments = format!("train {TINY} --steps 5 --log-every 1 --sample 0 --out run {cut}");
        let output = gpt(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let found = losses(&folder.path().join("run"));
        assert_eq!(found.len(), 5);
        found
    };
    let two = [
        "--stages 2 --policy retain",
        "--stages 2 --policy recompute --schedule gpipe",
        "--layers-per-stage 1,1 --policy selective:attention,mlp-out",
    ];
    let retained = of(two[0]);
    for cut in &two[1..] {
        assert_eq!(of(cut), retained, "{cut}");
    }
    assert_eq!(
        of("--stages 1 --policy recompute"),
        of("--stages 1 --policy retain")
    );
    // The embedding is the head's weight: between one stage and two, the order in which its two uses
    // and several micro-batches are summed differs. Of one micro-batch there are two terms.
    let one = of("--stages 1 --policy retain --micro-batches 1");
    for cut in two {
        assert_eq!(of(&format!("{cut} --micro-batches 1")), one, "{cut}");
    }
    for (found, expected) in retained.into_iter().zip(of("--stages 1")) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
    }
}

#[test]
fn without_a_folder_the_run_lands_below_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = gpt(
        folder.path(),
        &format!("{TINY} --steps 1 --warmup 0 --sample 0"),
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let runs: Vec<_> = fs::read_dir(folder.path().join("runs"))
        .expect("created")
        .collect();
    assert_eq!(runs.len(), 1);
}

#[test]
fn wrong_input_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = folder.path().join("short.txt");
    fs::write(&short, "short").expect("written");
    fs::write(folder.path().join("empty.txt"), "").expect("written");
    fs::create_dir(folder.path().join("nothing")).expect("created");
    let cases = [
        ("--stages 5 --layers 4", "5 stages"),
        ("--stages 0", "stage"),
        ("--layers-per-stage 3,2 --layers 4", "5 layers"),
        ("--layers-per-stage 4,0", "0 layers"),
        ("--batch 0", "--batch"),
        ("--heads 3", "3 heads"),
        ("--width 0", "width"),
        ("--micro-batches 9 --batch 8", "9 micro-batches"),
        ("--warmup 9 --steps 8", "9 steps"),
        ("--dropout 1.5", "1.5"),
        ("--learning-rate fast", "fast"),
        ("--policy selective:attenton", "attenton"),
        ("--policy hand:KK/RR", "2 choices"),
        ("--device cuda:0", "--features cuda"),
        ("--device flex,flex,flex", "3 devices"),
        ("--data missing.txt", "missing.txt"),
        ("--data short.txt", "short.txt has 5 bytes"),
        ("--data empty.txt", "empty.txt is empty"),
        ("--data nothing", "nothing holds no file"),
        // Not a folder, whoever asks: root may write anywhere.
        ("--out short.txt/run", "short.txt"),
        // A file system in which nothing can be made.
        ("--out /proc/run", "/proc/run"),
        ("--what", "--what"),
        ("trian", "trian"),
    ];
    for (arguments, named) in cases {
        refused(folder.path(), arguments, named);
    }
}

#[test]
fn a_loss_that_is_no_number_ends_the_run_with_exit_code_1_unless_told_to_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = format!("{TINY} --steps 8 --warmup 0 --learning-rate 1e30 --out run");
    let output = gpt(folder.path(), &arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("not finite") && !error.contains("panicked"),
        "{error}"
    );

    let output = gpt(folder.path(), &format!("{arguments} --skip-non-finite"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let records = metrics(&folder.path().join("run"));
    assert_eq!(records.last().expect("some")["applied"], false);
}

#[test]
fn help_names_every_group_and_is_no_error() {
    let output = gpt(Path::new("."), "--help");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for group in ["Model:", "Pipeline:", "Training:", "Data and output:"] {
        assert!(said.contains(group), "{said}");
    }
}

#[test]
fn every_shell_gets_a_script_that_knows_the_subcommands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = said(&gpt(Path::new("."), &format!("completions {shell}")));
        for name in ["generate", "simulate", "top-k"] {
            assert!(script.contains(name), "{shell}");
        }
    }
}
