//! What a save is good for beside going on.

use std::fs;

use super::TINY;
use super::common::{gpt, said};

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
