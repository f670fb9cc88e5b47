//! Saves, `--resume`, Ctrl-C, `gpt generate` and `gpt eval` as a user meets them.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use burn::optim::SgdConfig;
use burn::prelude::*;
use common::{gpt, metrics, number, refused, said};
use gpt_example::{Gpt, GptConfig};
use lynx_burn::{Saves, TrainerBuilder};
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

#[test]
fn a_resumed_run_has_the_losses_of_an_unbroken_one_to_the_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = format!("{TINY} --steps 14 --eval-every 7 --save-every 4 --keep 9 --stages 2");
    said(&gpt(folder.path(), &format!("{whole} --out whole")));
    let whole = folder.path().join("whole");
    let expected = course(&whole);
    assert_eq!(expected.len(), 14);
    let steps: Vec<String> = saves(&whole)
        .iter()
        .map(|path| {
            path.file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(
        steps,
        [
            "000001-step-4",
            "000002-step-8",
            "000003-step-12",
            "000004-step-14"
        ]
    );

    // Into a folder of its own, which then has the steps that were left.
    for cut in [
        "--stages 2",
        "--stages 2 --schedule gpipe --policy retain",
        "--layers-per-stage 3,1 --policy selective:attention",
    ] {
        let save = "whole/saves/000002-step-8";
        let text = said(&gpt(
            folder.path(),
            &format!("train --resume {save} --out part {cut}"),
        ));
        assert!(text.contains("after step 8"), "{text}");
        let part = folder.path().join("part");
        assert_eq!(course(&part), expected[8..], "{cut}");
    }

    // In its own folder, as if it had been killed after step 9 while it wrote a line.
    for late in &saves(&whole)[2..] {
        fs::remove_dir_all(late).expect("removed");
    }
    let lines = fs::read_to_string(whole.join("metrics.jsonl")).expect("read");
    let lines: Vec<&str> = lines.lines().collect();
    let torn = format!("{}\n{}", lines[..9].join("\n"), &lines[9][..20]);
    fs::write(whole.join("metrics.jsonl"), torn).expect("written");
    said(&gpt(folder.path(), "--resume whole"));
    assert_eq!(course(&whole), expected);

    let spent: Vec<f64> = metrics(&whole)
        .iter()
        .map(|r| number(r, "elapsed_s"))
        .collect();
    assert!(spent.is_sorted(), "{spent:?}");

    // And on from its end, for longer.
    refused(folder.path(), "--resume whole", "14 of 14 steps");
    said(&gpt(folder.path(), "--resume whole --steps 16"));
    assert_eq!(course(&whole)[..14], expected);
    assert_eq!(metrics(&whole).len(), 16);
}

/// One stage adds up the tied embedding's gradients in another order than two: see the README.
#[test]
fn a_run_resumed_on_one_stage_or_four_stays_within_rounding() {
    let folder = tempfile::tempdir().expect("a folder");
    said(&gpt(
        folder.path(),
        &format!("{TINY} --steps 12 --save-every 6 --stages 2 --out whole"),
    ));
    let whole = metrics(&folder.path().join("whole"));
    for stages in [1, 4] {
        said(&gpt(
            folder.path(),
            &format!("--resume whole/saves/000001-step-6 --out part --stages {stages}"),
        ));
        let part = metrics(&folder.path().join("part"));
        assert_eq!(part.len(), 6);
        for (part, whole) in part.iter().zip(&whole[6..]) {
            let [part, whole] = [part, whole].map(|record| number(record, "train_loss"));
            assert!(
                (part - whole).abs() <= 1e-6 * whole,
                "{stages}: {part} {whole}"
            );
        }
    }
}

/// Starts a run and waits until it has said a line that begins so.
fn begin(folder: &Path, arguments: &str, line: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpt"))
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let said = BufReader::new(child.stdout.as_mut().expect("piped"));
    let found = said
        .lines()
        .map_while(Result::ok)
        .any(|said| said.starts_with(line));
    assert!(found, "it ended without saying {line:?}");
    child
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_step_saves_and_says_how_to_go_on() {
    for name in ["INT", "TERM"] {
        let folder = tempfile::tempdir().expect("a folder");
        let run = format!("{TINY} --steps 100000 --out run");
        let mut child = begin(folder.path(), &run, "step     3");
        let output = child.stdout.take().expect("piped");
        signal(&child, name);
        let last = BufReader::new(output).lines().map_while(Result::ok).last();
        let last = last.expect("a last word");
        assert!(child.wait().expect("ended").success(), "{last}");
        assert!(last.contains("gpt train --resume run"), "{last}");
        let run = folder.path().join("run");
        let records = metrics(&run);
        let taken = number(records.last().expect("some"), "step");
        assert!(last.contains(&format!("after step {taken},")), "{last}");
        let [save] = &saves(&run)[..] else {
            panic!("one save, not {:?}", saves(&run));
        };
        assert!(save.ends_with(format!("000001-step-{taken}")));
        let more = format!("--resume run --steps {}", taken + 2.0);
        said(&gpt(folder.path(), &more));
        assert_eq!(metrics(&run).len() as f64, taken + 2.0);
    }
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_the_run_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // A step of minutes.
    let run = "--layers 8 --width 512 --heads 8 --context 256 --batch 64 --stages 1 --out run";
    let mut child = begin(folder.path(), run, "run ");
    while child.try_wait().expect("asked").is_none() {
        signal(&child, "INT");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    assert!(!folder.path().join("run/saves").exists());
}

#[test]
fn a_model_writes_the_same_for_the_same_seed_and_bolder_for_more() {
    let folder = tempfile::tempdir().expect("a folder");
    said(&gpt(folder.path(), &format!("{TINY} --steps 30 --out run")));
    let write = |options: &str| {
        let text = said(&gpt(
            folder.path(),
            &format!("generate run --length 40 --prompt Sed {options}"),
        ));
        assert!(text.starts_with("Sed"), "{text}");
        text
    };
    let bold = "--temperature 1.5 --seed 3";
    assert_eq!(write(bold), write(bold));
    assert_ne!(write(bold), write("--temperature 1.5 --seed 4"));
    assert_ne!(write(bold), write(&format!("{bold} --top-k 3")));
    // The likeliest of one is the likeliest.
    assert_eq!(write("--top-k 1 --temperature 2"), write("--temperature 0"));
    // The prompt matters, and is optional.
    said(&gpt(folder.path(), "generate run --length 5"));
    said(&gpt(folder.path(), "generate run/saves --length 5"));
}

#[test]
fn an_evaluation_tells_the_same_loss_in_three_units_whatever_the_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    let text: String = (0..3000)
        .map(|i| char::from(b'a' + (i * i % 23) as u8))
        .collect();
    fs::write(folder.path().join("mine.txt"), &text).expect("written");
    fs::write(folder.path().join("two.txt"), "ab").expect("written");
    said(&gpt(
        folder.path(),
        &format!("{TINY} --steps 20 --data mine.txt --out run"),
    ));
    let figures = |options: &str| {
        let text = said(&gpt(folder.path(), &format!("eval run {options}")));
        let figure = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
            line.split_whitespace()
                .nth(1)
                .expect("a figure")
                .parse()
                .expect("a number")
        };
        let found = ["loss", "perplexity", "bits"].map(figure);
        assert!(
            (found[0].exp() - found[1]).abs() < 2e-4 * found[1],
            "{text}"
        );
        assert!((found[0] / 2f64.ln() - found[2]).abs() < 2e-4, "{text}");
        (found[0], text)
    };
    let (loss, said) = figures("");
    assert!(said.contains("300 bytes, 299 of them predicted"), "{said}");
    assert!(loss < 256f64.ln(), "{said}");
    assert!((figures("--batch 1").0 - loss).abs() < 2e-4);
    let (_, said) = figures("--data two.txt");
    assert!(said.contains("2 bytes, 1 of them"), "{said}");
}

#[test]
fn what_cannot_be_gone_on_with_is_one_line_that_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    fs::write(place.join("mine.txt"), "Lorem ipsum dolor. ".repeat(50)).expect("written");
    let run = format!("{TINY} --steps 4 --save-every 2 --data mine.txt");
    said(&gpt(place, &format!("{run} --out run")));
    fs::create_dir(place.join("empty")).expect("created");
    let more = "--resume run --steps 6";
    let cases = [
        ("--resume missing".to_owned(), "missing"),
        ("--resume empty".to_owned(), "holds no save"),
        ("--resume mine.txt".to_owned(), "mine.txt"),
        ("--resume run".to_owned(), "--steps"),
        (format!("{more} --layers 3"), "--layers is 4"),
        (format!("{more} --seed 1"), "--seed is 0"),
        (format!("{more} --stages 5"), "5 stages"),
        (format!("{more} --keep 0"), "--keep"),
        ("generate missing".to_owned(), "missing"),
        ("generate run --temperature -1".to_owned(), "--temperature"),
        ("generate run --top-k 0".to_owned(), "--top-k"),
        ("generate".to_owned(), "RUN"),
        ("eval empty".to_owned(), "holds no save"),
        ("eval run --data missing.txt".to_owned(), "missing.txt"),
        ("eval run --device cuda:0".to_owned(), "--features cuda"),
        ("completions".to_owned(), "SHELL"),
    ];
    for (arguments, named) in cases {
        refused(place, &arguments, named);
    }

    // The text has changed: refused, unless it is named.
    fs::write(place.join("mine.txt"), "Dolor sit amet. ".repeat(70)).expect("written");
    refused(place, more, "--data");
    said(&gpt(place, &format!("{more} --data mine.txt")));

    // Saves that lost something.
    let newest = saves(&place.join("run")).pop().expect("a save");
    for name in [
        "weights.safetensors",
        "optimizer.bpk",
        "about.json",
        "save.json",
    ] {
        let path = newest.join(name);
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..whole.len() / 2]).expect("written");
        refused(place, "--resume run --steps 8", name);
        refused(place, "--resume run --steps 8", "take an older save");
        fs::write(&path, b"not a save at all").expect("written");
        refused(place, "--resume run --steps 8", name);
        fs::write(&path, whole).expect("written");
    }
}

#[test]
fn a_run_killed_again_and_again_ends_as_an_unbroken_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = format!("{TINY} --steps 60 --save-every 1 --eval-every 10");
    said(&gpt(folder.path(), &format!("{run} --out whole")));
    let broken = folder.path().join("broken");
    let (mut kills, mut done) = (0u64, false);
    while !done {
        let begun = broken.join("saves").is_dir() && !saves(&broken).is_empty();
        if begun
            && saves(&broken)
                .iter()
                .any(|save| save.to_string_lossy().ends_with("step-60"))
        {
            // Killed after the last step was saved: there is nothing to go on with.
            break;
        }
        let arguments = match begun {
            true => "--resume broken".to_owned(),
            false => format!("{run} --out broken"),
        };
        let mut child = begin(folder.path(), &arguments, "step ");
        // A second line means a step taken, a third one that the step has been saved.
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let lines = 2 + kills as usize % 3;
        let before = Instant::now();
        let said = output
            .map_while(Result::ok)
            .filter(|line| line.starts_with("step "));
        let enough = said.take(lines).count() == lines;
        let each = before.elapsed() / lines as u32;
        if enough {
            std::thread::sleep(each * (kills * 7919 % 1000) as u32 / 1000);
            child.kill().expect("killed, or over");
        }
        done = child.wait().expect("ended").success();
        kills += u64::from(!done);
    }
    assert!(kills >= 3, "{kills} kills");
    assert_eq!(course(&broken), course(&folder.path().join("whole")));
}

/// A save by a program of somebody else's that trains the same model.
#[test]
fn a_save_of_another_program_is_refused_with_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = GptConfig {
        layers: 1,
        d_model: 8,
        heads: 1,
        context: 4,
        vocabulary: 256,
        dropout: 0.0,
        ..GptConfig::NANO
    };
    let model = Gpt::new(&config, 0, &Device::flex().autodiff()).expect("valid");
    let mut trainer = TrainerBuilder::new()
        .train(model, SgdConfig::new().init())
        .expect("it fits");
    let saves = Saves::new(folder.path().join("theirs"));
    trainer.save(&saves, &"whatever they like").expect("saved");
    for command in ["--resume theirs", "generate theirs", "eval theirs"] {
        refused(folder.path(), command, "not written by this program");
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_one_line_and_leaves_the_saves_before_it_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    said(&gpt(place, &format!("{TINY} --steps 3 --out run")));
    let before = saves(&place.join("run"));
    // No file may be larger than 64 KiB, which the weights are.
    let program = env!("CARGO_BIN_EXE_gpt");
    let limited = format!("trap '' XFSZ; ulimit -f 64; exec {program} --resume run --steps 5");
    let output = Command::new("bash")
        .current_dir(place)
        .args(["-c", &limited])
        .output()
        .expect("bash is there");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("weights.safetensors"), "{error}");
    assert_eq!(saves(&place.join("run")), before);
    said(&gpt(place, "--resume run --steps 5"));
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
