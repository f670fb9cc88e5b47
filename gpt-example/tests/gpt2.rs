//! Weights of Hugging Face's GPT-2, in and out again.
//!
//! The folder `fixtures/gpt2` holds a small GPT-2 and its logits, written by transformers itself: see
//! `fixtures/gpt2.py`. Where Python has transformers, the other direction is shown too: it reads what
//! was exported. `HF_PYTHON` names the interpreter.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use burn::prelude::*;
use burn::tensor::{bf16, f16};
use common::{gpt, json, metrics, refused, said};
use gpt_example::Activations;
use gpt_example::cli::{Cli, Task, TrainArgs};
use gpt_example::orders::Orders;
use gpt_example::pipeline::build_from;
use gpt_example::pretrained::{Pretrained, PretrainedError};
use proptest::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};

/// What is allowed between their logits and ours, which are up to 6; with the other GELU they are
/// 2e-3 apart.
const CLOSE: f64 = 1e-4;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpt2")
}

fn weights() -> PathBuf {
    fixture().join("model.safetensors")
}

fn train_args(arguments: &str) -> TrainArgs {
    let words = ["gpt", "train"]
        .into_iter()
        .chain(arguments.split_whitespace());
    match Cli::read(words).expect("valid options") {
        Task::Train(args) => *args,
        other => panic!("{other:?}"),
    }
}

/// The logits of the weights in a file, computed as the options say. `[16, vocabulary]`
fn logits(path: &Path, arguments: &str, tokens: &[i32]) -> Vec<f64> {
    let mut args = train_args(arguments);
    let weights = Pretrained::open(path).expect("a GPT-2");
    weights
        .adopt(&mut args.model, &args.given)
        .expect("it fits");
    let start = (Some(&weights), None);
    let mut trainer =
        build_from(&args, &[Device::flex()], Orders::default(), start).expect("it fits");
    let data = TensorData::new(tokens.to_vec(), [1, tokens.len()]);
    let input = Activations::Tokens(Tensor::from_data(data, &Device::flex()));
    let Activations::Logits(logits) = trainer.predict(input).expect("logits") else {
        panic!("no logits");
    };
    logits.into_data().iter().collect()
}

/// The tokens that the fixture's logits are of, and those logits.
fn theirs() -> (Vec<i32>, Vec<f64>) {
    let known = json(&fixture().join("logits.json"));
    let tokens = serde_json::from_value(known["tokens"].clone()).expect("numbers");
    let rows: Vec<Vec<f64>> = serde_json::from_value(known["logits"].clone()).expect("numbers");
    (tokens, rows.concat())
}

fn distance(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let both = ours.iter().zip(theirs);
    both.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn logits_are_those_of_transformers_however_the_model_is_cut() {
    let (tokens, theirs) = theirs();
    for cut in [
        "--stages 1",
        "--stages 2",
        "--stages 1 --tp 2",
        "--stages 2 --tp 2",
        "--stages 1 --modules burn",
    ] {
        let apart = distance(&logits(&weights(), cut, &tokens), &theirs);
        assert!(apart < CLOSE, "{cut}: {apart}");
    }
}

#[test]
fn the_exact_gelu_is_told_from_gpt_2s() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.safetensors");
    fs::copy(weights(), &path).expect("copied");
    let (tokens, theirs) = theirs();
    let exact = logits(&path, "--heads 2 --activation gelu", &tokens);
    assert!(distance(&exact, &theirs) > 10.0 * CLOSE);
    // Without a configuration it is GPT-2's.
    let own = logits(&path, "--heads 2", &tokens);
    assert!(distance(&own, &theirs) < CLOSE);
}

/// 258 rows: neither rank's are tokens alone.
#[test]
fn rows_without_a_token_change_no_logit_and_are_never_likely() {
    let (tokens, theirs) = theirs();
    for cut in ["--tp 2", "--stages 2 --tp 2", "--stages 1"] {
        let padded = logits(&weights(), &format!("{cut} --pad-vocabulary 6"), &tokens);
        let (rows, _) = padded.as_chunks::<258>();
        let held: Vec<f64> = rows.iter().flat_map(|row| row[..256].to_vec()).collect();
        assert!(distance(&held, &theirs) < CLOSE, "{cut}");
        assert!(rows.iter().all(|row| row[256] < -1e8 && row[257] < -1e8));
    }
}

/// Type, shape and bytes of tensors, by name.
type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Every tensor of a file, by its name without prefix.
fn tensors(path: &Path) -> Tensors {
    let bytes = fs::read(path).expect("read");
    let file = SafeTensors::deserialize(&bytes).expect("a .safetensors file");
    let named = file.iter().map(|(name, view)| {
        let name = name.strip_prefix("transformer.").unwrap_or(name).to_owned();
        let data = view.data().to_vec();
        (name, (view.dtype(), view.shape().to_vec(), data))
    });
    named.collect()
}

/// Writes tensors under the names that they have.
fn write(path: &Path, tensors: &Tensors) {
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        let view = TensorView::new(*dtype, shape.clone(), data).expect("sizes fit");
        (name, view)
    });
    fs::write(path, serialize(views, None).expect("written")).expect("written");
}

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
    let first = common::number(&metrics(&place.join("run"))[0], "train_loss");
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

/// As GPT-2's own file is written: no prefix, buffers that are no weights, or the head beside it.
#[test]
fn files_of_other_programs_and_precisions_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.safetensors");
    let (tokens, theirs) = theirs();
    let mut old = tensors(&weights());
    let mask = (Dtype::F32, vec![1, 1, 2, 2], vec![0; 16]);
    old.insert("h.0.attn.bias".to_owned(), mask);
    let lowest = (Dtype::F32, vec![], vec![0; 4]);
    old.insert("h.1.attn.masked_bias".to_owned(), lowest);
    let head = old["wte.weight"].clone();
    old.insert("lm_head.weight".to_owned(), head);
    write(&path, &old);
    assert!(distance(&logits(&path, "--heads 2", &tokens), &theirs) < CLOSE);

    // Each number is off by at most a 2^9th or 2^12th part of it.
    let plain = tensors(&weights());
    type Narrow = fn(f32) -> [u8; 2];
    let narrow: [(Dtype, f64, Narrow); 2] = [
        (Dtype::BF16, 0.3, |value| {
            bf16::from_f32(value).to_le_bytes()
        }),
        (Dtype::F16, 0.03, |value| f16::from_f32(value).to_le_bytes()),
    ];
    for (dtype, close, narrow) in narrow {
        let halves = plain.iter().map(|(name, (_, shape, data))| {
            let (fours, _) = data.as_chunks::<4>();
            let data = fours
                .iter()
                .flat_map(|&four| narrow(f32::from_le_bytes(four)));
            (name.clone(), (dtype, shape.clone(), data.collect()))
        });
        write(&path, &halves.collect());
        let apart = distance(&logits(&path, "--heads 2", &tokens), &theirs);
        assert!(apart < close && apart > CLOSE, "{dtype}: {apart}");
    }
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
    refused(place, "--preset gpt2 --tp 2", "50257 tokens");
}

#[test]
fn files_that_hold_something_else_are_refused_with_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.safetensors");
    let whole = tensors(&weights());
    let opened = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = whole.clone();
        change(&mut tensors);
        write(&path, &tensors);
        Pretrained::open(&path).expect_err("not a GPT-2")
    };
    let floats = |shape: &[usize]| {
        let count = 4 * shape.iter().product::<usize>();
        (Dtype::F32, shape.to_vec(), vec![0; count])
    };
    let error = opened(&|all| drop(all.remove("h.1.mlp.c_fc.bias")));
    assert!(matches!(&error, PretrainedError::Missing { name, .. } if name == "h.1.mlp.c_fc.bias"));
    let error = opened(&|all| drop(all.insert("h.0.attn.rotary".to_owned(), floats(&[4]))));
    assert!(matches!(&error, PretrainedError::Foreign { name, .. } if name == "h.0.attn.rotary"));
    // A linear layer's weight, the other way round.
    let turned = floats(&[48, 16]);
    let error =
        opened(&|all| drop(all.insert("h.0.attn.c_attn.weight".to_owned(), turned.clone())));
    assert!(
        error
            .to_string()
            .contains("[48, 16] where GPT-2 has [16, 48]"),
        "{error}"
    );
    let error = opened(&|all| drop(all.insert("wpe.weight".to_owned(), floats(&[16]))));
    assert!(
        error.to_string().contains("[16] where GPT-2 has a matrix"),
        "{error}"
    );
    // A layer that is missing, and one beyond all others.
    let error = opened(&|all| all.retain(|name, _| !name.starts_with("h.0.")));
    assert!(matches!(&error, PretrainedError::Missing { name, .. } if name.starts_with("h.0.")));
    let far = format!("h.{}.ln_1.weight", usize::MAX);
    let error = opened(&|all| drop(all.insert(far.clone(), floats(&[16]))));
    assert!(matches!(&error, PretrainedError::Missing { name, .. } if name.starts_with("h.2.")));
    let error = opened(&|all| {
        let ints = (Dtype::I32, vec![16], vec![0; 64]);
        all.insert("ln_f.bias".to_owned(), ints);
    });
    assert!(matches!(error, PretrainedError::Type { .. }), "{error}");
    let error = opened(&|all| drop(all.insert("lm_head.weight".to_owned(), floats(&[256, 16]))));
    assert!(matches!(error, PretrainedError::Untied(_)), "{error}");
    let error = opened(&|all| {
        let again = all["ln_f.bias"].clone();
        all.insert("transformer.ln_f.bias".to_owned(), again);
    });
    assert!(error.to_string().contains("two tensors"), "{error}");

    // A configuration of another kind beside it.
    fs::copy(weights(), &path).expect("copied");
    for (text, named) in [
        ("{", "config.json"),
        ("{}", "model_type"),
        (r#"{"model_type":"llama"}"#, "model_type is llama"),
        (r#"{"model_type":"gpt2","n_layer":3}"#, "n_layer is 3"),
        (r#"{"model_type":"gpt2","n_inner":100}"#, "n_inner is 100"),
        (r#"{"model_type":"gpt2","n_layer":-1}"#, "config.json"),
        (
            r#"{"model_type":"gpt2","activation_function":"relu"}"#,
            "relu",
        ),
        (
            r#"{"model_type":"gpt2","scale_attn_weights":false}"#,
            "scale_attn_weights is false",
        ),
        (
            r#"{"model_type":"gpt2","layer_norm_epsilon":0.0}"#,
            "layer_norm_epsilon is 0",
        ),
    ] {
        fs::write(folder.path().join("config.json"), text).expect("written");
        let error = Pretrained::open(&path).expect_err(text).to_string();
        assert!(
            error.contains(named) && error.lines().count() == 1,
            "{error}"
        );
    }
}

#[test]
fn files_cut_off_anywhere_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(weights()).expect("read");
    for length in [0, 7, 8, 9, 100, 2000, whole.len() - 1] {
        fs::write(&path, &whole[..length]).expect("written");
        let error = Pretrained::open(&path).expect_err("not whole");
        assert!(
            matches!(error, PretrainedError::Damaged { .. }),
            "{length}: {error}"
        );
    }
    let longer = [whole.as_slice(), b"x"].concat();
    fs::write(&path, longer).expect("written");
    assert!(Pretrained::open(&path).is_err());
    // As a user meets it.
    fs::write(&path, &whole[..whole.len() / 2]).expect("written");
    refused(
        folder.path(),
        "--init-from model.safetensors --heads 2",
        "no whole .safetensors",
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// The header is 2.6 kB of the 46: most changes are made there.
    #[test]
    fn a_file_that_was_changed_at_random_is_read_or_refused(
        places in proptest::collection::vec((0..4000_usize, any::<u8>()), 1..8),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.safetensors");
        let mut bytes = fs::read(weights()).expect("read");
        for (place, byte) in places {
            bytes[place] = byte;
        }
        if cut {
            bytes.truncate(length.index(bytes.len()));
        }
        fs::write(&path, bytes).expect("written");
        if let Ok(weights) = Pretrained::open(&path) {
            let mut args = train_args("--heads 2");
            prop_assert!(weights.adopt(&mut args.model, &args.given).is_ok());
        }
    }

    #[test]
    fn random_bytes_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.safetensors");
        fs::write(&path, &bytes).expect("written");
        prop_assert!(Pretrained::open(&path).is_err());
        // With a header of the right length at least.
        let length = bytes.len() as u64;
        bytes.splice(..0, length.to_le_bytes());
        fs::write(&path, &bytes).expect("written");
        prop_assert!(Pretrained::open(&path).is_err());
    }
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
