//! `gpt train --init-from` and `gpt export` as a user meets them.

use std::fs;
use std::process::Command;

use super::common::{gpt, json, metrics, number, refused, said};
use super::{CLOSE, distance, fixture, logits, tensors, theirs, weights};

#[test]
fn an_export_of_an_import_has_the_same_bytes_and_sizes() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let path = weights().display().to_string();
    for (run, options) in [
        ("one", "--stages 1"),
        ("two", "--stages 2 --tp 2"),
        ("padded", "--tp 2 --pad-vocabulary 6"),
    ] {
        let begin = format!(
            "train --init-from {path} {options} --steps 0 --eval-batches 1 --sample 0 --out {run}"
        );
        let text = said(&gpt(place, &begin));
        assert!(text.contains("2 layers, width 16, 2 heads"), "{text}");
        let export = format!("export {run} --out out/{run}/model.safetensors");
        let text = said(&gpt(place, &export));
        assert!(text.contains("28 tensors"), "{text}");
        let out = place.join("out").join(run);
        assert!(
            tensors(&out.join("model.safetensors")) == tensors(&weights()),
            "{run}"
        );
        let (theirs, ours) = (
            json(&fixture().join("config.json")),
            json(&out.join("config.json")),
        );
        for name in [
            "activation_function",
            "layer_norm_epsilon",
            "model_type",
            "n_embd",
            "n_head",
            "n_inner",
            "n_layer",
            "n_positions",
            "vocab_size",
        ] {
            assert_eq!(theirs[name], ours[name], "{name}");
        }
    }
    // And in again.
    let (tokens, theirs) = theirs();
    let again = logits(
        &place.join("out/two/model.safetensors"),
        "--stages 1",
        &tokens,
    );
    assert!(distance(&again, &theirs) < CLOSE);
}

#[test]
fn imported_weights_are_trained_resumed_generated_from_and_evaluated() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let path = weights().display().to_string();
    let small = "--batch 4 --micro-batches 2 --eval-batches 1 --log-every 1 --warmup 0 --sample 5";
    let run = format!("train --init-from {path} {small} --steps 2 --stages 2 --tp 2 --out run");
    said(&gpt(place, &run));
    // Far from what a model without weights says, which is about ln 256.
    let first = number(&metrics(&place.join("run"))[0], "train_loss");
    assert!(first > 6.0, "{first}");
    let options = json(&place.join("run/config.json"))["model"].clone();
    assert_eq!(options["activation"], "gelu-tanh");
    said(&gpt(place, "--resume run --steps 4 --stages 1 --tp 1"));
    assert_eq!(metrics(&place.join("run")).len(), 4);
    said(&gpt(place, "generate run --prompt Quid --length 5"));
    assert!(said(&gpt(place, "eval run")).contains("a byte"));
    // What was learnt is what is exported.
    said(&gpt(place, "export run --out out/model.safetensors"));
    let exported = tensors(&place.join("out/model.safetensors"));
    let before = tensors(&weights());
    assert!(exported.keys().eq(before.keys()));
    assert!(exported.iter().all(|(name, now)| *now != before[name]));
    refused(
        place,
        &format!("--resume run --init-from {path}"),
        "--init-from",
    );
    refused(
        place,
        "--resume run --steps 9 --activation gelu",
        "--activation is gelu-tanh",
    );
    refused(
        place,
        "export run --out run/model.safetensors",
        "run/config.json",
    );
    refused(place, "export missing --out m.safetensors", "missing");
    assert!(!place.join("run/model.safetensors").exists());
}

#[test]
fn options_that_contradict_the_file_are_refused_with_both_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let path = weights().display().to_string();
    fs::copy(weights(), place.join("alone.safetensors")).expect("copied");
    for (options, named) in [
        ("--layers 3", ["3 layers", "2 layers"]),
        ("--width 32", ["a width of 32", "a width of 16"]),
        ("--heads 4", ["4 heads", "2 heads"]),
        ("--context 64", ["a context of 64", "a context of 16"]),
        (
            "--vocabulary 300",
            ["a vocabulary of 300", "a vocabulary of 256"],
        ),
        (
            "--preset gpt2",
            ["--preset gpt2 asks for 12 layers", "2 layers"],
        ),
        ("--activation gelu", ["asks for gelu,", "has gelu-tanh"]),
        ("--norm-epsilon 1e-6", ["1e-6", "1e-5"]),
    ] {
        for named in named {
            refused(place, &format!("--init-from {path} {options}"), named);
        }
    }
    refused(place, "--init-from alone.safetensors", "--heads");
    refused(place, "--init-from alone.safetensors --heads 3", "3 heads");
    refused(
        place,
        "--init-from missing.safetensors",
        "missing.safetensors",
    );
    refused(place, "--init-from .", "directory");
    refused(place, "--preset gpt3", "gpt3");
    refused(place, "--preset 20b", "gpt plan --model 20b");
    refused(place, "--preset gpt2 --tp 2", "--pad-vocabulary");
}

#[test]
fn transformers_reads_what_is_exported() {
    let python = std::env::var("HF_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let can = Command::new(&python)
        .args(["-c", "import torch, transformers"])
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {python} has no transformers with PyTorch; see HF_PYTHON");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    // Learnt here from the beginning, with the other GELU too.
    let small = "--layers 2 --width 16 --heads 2 --context 16 --batch 4 --micro-batches 2 \
                 --eval-batches 1 --steps 20 --sample 0 --learning-rate 0.03";
    for activation in ["gelu", "gelu-tanh"] {
        let run = format!("train {small} --activation {activation} --out {activation}");
        said(&gpt(place, &run));
        let out = format!("out-{activation}");
        said(&gpt(
            place,
            &format!("export {activation} --out {out}/model.safetensors"),
        ));
        let script = fixture().with_file_name("gpt2.py");
        let output = Command::new(&python)
            .arg(script)
            .args(["logits", &place.join(&out).display().to_string()])
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{output:?}");
        let rows: Vec<Vec<f64>> = serde_json::from_slice(&output.stdout).expect("numbers");
        let (tokens, _) = theirs();
        let path = place.join(&out).join("model.safetensors");
        let apart = distance(&logits(&path, "--stages 1", &tokens), &rows.concat());
        assert!(apart < CLOSE, "{activation}: {apart}");
    }
}
