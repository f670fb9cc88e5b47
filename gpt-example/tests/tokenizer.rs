//! Tokenizers as a user meets them: learnt, trained with, kept, and used again.

mod common;

use std::fs;

use common::{gpt, json, refused, said};

const SMALL: &str = "--layers 1 --width 16 --heads 2 --context 16 --batch 4 --micro-batches 2 \
                     --eval-batches 1 --warmup 0 --sample 10 --stages 1";

/// The number behind a word in what was said.
fn figure(text: &str, line: &str) -> f64 {
    let found = text.lines().find_map(|said| said.strip_prefix(line));
    let found = found.unwrap_or_else(|| panic!("no {line:?} in {text}"));
    let word = found.split_whitespace().next();
    word.and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no number in {found:?}"))
}

#[test]
fn a_run_learns_tokens_and_keeps_its_tokenizer() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let text = said(&gpt(place, "tokenizer train --vocab 300 --out own.json"));
    assert!(
        text.contains("tokens    300") && text.contains("own.json"),
        "{text}"
    );
    let text = said(&gpt(
        place,
        &format!("train {SMALL} --tokenizer own.json --steps 3 --out run"),
    ));
    assert!(text.contains("nats a token"), "{text}");
    assert!(text.contains("vocabulary 300"), "{text}");
    let own = fs::read(place.join("own.json")).expect("written");
    assert_eq!(
        fs::read(place.join("run/tokenizer.json")).expect("kept"),
        own
    );
    let report = fs::read_to_string(place.join("run/report.html")).expect("written");
    assert!(report.contains("nats a token") && report.contains("bits a byte"));

    // The file is not needed any more, nor the run's folder.
    fs::remove_file(place.join("own.json")).expect("removed");
    let first = said(&gpt(place, "generate run --prompt Quid --length 8"));
    assert!(first.starts_with("Quid") && first.len() > 4, "{first}");
    let save = fs::read_dir(place.join("run/saves")).expect("saves").next();
    let save = save.expect("a save").expect("read").path();
    fs::rename(save, place.join("alone")).expect("moved");
    let alone = said(&gpt(place, "generate alone --prompt Quid --length 8"));
    assert_eq!(alone, first);
    said(&gpt(place, "--resume alone --steps 5 --out more"));
    assert_eq!(
        fs::read(place.join("more/tokenizer.json")).expect("kept"),
        own
    );

    // Exported with it.
    said(&gpt(place, "export more --out hf/model.safetensors"));
    assert_eq!(
        fs::read(place.join("hf/tokenizer.json")).expect("written"),
        own
    );
    assert_eq!(json(&place.join("hf/config.json"))["vocab_size"], 300);

    said(&gpt(place, "tokenizer train --vocab 301 --out other.json"));
    let resume = "--resume more --steps 9 --tokenizer";
    refused(
        place,
        &format!("{resume} other.json"),
        "--tokenizer is another",
    );
    said(&gpt(place, &format!("{resume} more/tokenizer.json")));
}

#[test]
fn an_evaluation_counts_bits_by_the_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    said(&gpt(place, "tokenizer train --vocab 400 --out own.json"));
    let run = format!("train {SMALL} --tokenizer own.json --steps 2 --out run");
    said(&gpt(place, &run));
    let text = "Quid est, quod erat demonstrandum? ".repeat(20);
    fs::write(place.join("text.txt"), &text).expect("written");
    let told = said(&gpt(place, "eval run --data text.txt"));
    let tokenizer = tokenizers::Tokenizer::from_file(place.join("own.json")).expect("a tokenizer");
    let tokens = tokenizer.encode(text.as_str(), false).expect("text");
    let first = tokens.get_tokens()[0].len();
    let (count, bytes) = (tokens.get_ids().len() - 1, text.len() - first);
    let expected = format!(
        "{} bytes, {} tokens, {count} of them predicted",
        text.len(),
        count + 1
    );
    assert!(told.contains(&expected), "{told}");
    let (loss, bits) = (figure(&told, "loss"), figure(&told, "bits"));
    let wanted = loss * count as f64 / bytes as f64 / std::f64::consts::LN_2;
    // Both are written with four places.
    assert!((bits - wanted).abs() < 1.1e-4, "{told}: {wanted}");
    assert!(said(&gpt(place, "eval run")).contains("the last tenth of Cicero"));
}

#[test]
fn wrong_tokenizers_and_texts_are_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    said(&gpt(place, "tokenizer train --vocab 300 --out own.json"));
    fs::write(place.join("foreign.json"), r#"{"layers": 4}"#).expect("written");
    fs::write(place.join("broken.json"), "{\n\"version\": \n").expect("written");
    fs::write(place.join("latin1.txt"), b"\xe4".repeat(4000)).expect("written");
    fs::write(place.join("short.txt"), "few words").expect("written");
    fs::write(place.join("empty.txt"), "").expect("written");
    for (arguments, named) in [
        ("--tokenizer missing.json", "missing.json"),
        (
            "--tokenizer foreign.json",
            "foreign.json is no tokenizer.json",
        ),
        (
            "--tokenizer broken.json",
            "broken.json is no tokenizer.json",
        ),
        (
            "--tokenizer own.json --vocabulary 299",
            "300 tokens, more than the model's vocabulary of 299",
        ),
        (
            "--vocabulary 100",
            "256 tokens, more than the model's vocabulary of 100",
        ),
        (
            "--tokenizer own.json --data latin1.txt",
            "latin1.txt is not UTF-8",
        ),
        ("--tokenizer own.json --data short.txt", "short.txt has"),
        ("--tokenizer own.json --tp 2 --vocabulary 301", "301 tokens"),
        ("tokenizer train --vocab 255", "255"),
        ("tokenizer train --vocab 99999", "99999"),
        ("tokenizer train --data missing.txt", "missing.txt"),
        (
            "tokenizer train --data latin1.txt",
            "latin1.txt is not UTF-8",
        ),
        ("tokenizer train --data empty.txt", "empty.txt is empty"),
        (
            "tokenizer train --out no/such/folder.json",
            "no/such/folder.json",
        ),
        ("tokenizer", "subcommand"),
    ] {
        refused(place, arguments, named);
    }
    assert!(!place.join("tokenizer.json").exists());
    // Rows that ranks can share.
    let shared = format!("train {SMALL} --tokenizer own.json --vocabulary 301 --pad-vocabulary 2");
    said(&gpt(place, &format!("{shared} --tp 2 --steps 1 --out run")));
    assert_eq!(
        json(&place.join("run/config.json"))["model"]["vocabulary"],
        302
    );
}
