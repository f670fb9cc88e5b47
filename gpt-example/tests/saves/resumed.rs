//! Runs that go on from a save, and saves that none can go on from.

use std::fs;

use burn::optim::SgdConfig;
use burn::prelude::*;
use gpt_example::{Gpt, GptConfig};
use lynx_burn::{Saves, TrainerBuilder};

use super::common::{gpt, metrics, number, refused, said};
use super::{TINY, course, saves};

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
