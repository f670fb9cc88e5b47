//! Weights of Hugging Face's GPT-2, in and out again.
//!
//! The folder `fixtures/gpt2` holds a small GPT-2 and its logits, written by transformers itself: see
//! `fixtures/gpt2.py`. Where Python has transformers, the other direction is shown too: it reads what
//! was exported. `HF_PYTHON` names the interpreter.

#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod numbers;
mod program;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::prelude::*;
use common::json;
use gpt_example::Activations;
use gpt_example::cli::{Cli, Task, TrainArgs};
use gpt_example::orders::Orders;
use gpt_example::pipeline::build_from;
use gpt_example::pretrained::Pretrained;
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
