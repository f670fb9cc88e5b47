use std::fs;

use super::*;

fn corpus() -> Corpus {
    let text: Vec<u8> = (0..1000).map(|index| (index % 251) as u8).collect();
    Corpus::split("digits".to_owned(), &text, 16, &Tokenizer::bytes()).expect("long enough")
}

#[test]
fn the_last_tenth_is_kept_for_validation() {
    let corpus = corpus();
    assert_eq!(corpus.train.len(), 900);
    assert_eq!(corpus.validation.tokens.len(), 100);
    assert_eq!(corpus.validation.tokens[0], 900 % 251);
}

#[test]
fn a_text_is_long_enough_from_exactly_the_length_that_the_error_names() {
    let text = vec![b'a'; 170];
    assert!(Corpus::split("a".to_owned(), &text, 16, &Tokenizer::bytes()).is_ok());
    let error =
        Corpus::split("a".to_owned(), &text[1..], 16, &Tokenizer::bytes()).expect_err("too short");
    let DataError::Short { tokens, needed, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((tokens, needed), (169, 170));
}

#[test]
fn an_empty_text_and_a_missing_file_are_refused_by_name() {
    let empty = Corpus::split("void".to_owned(), &[], 4, &Tokenizer::bytes()).expect_err("empty");
    assert_eq!(empty.to_string(), "void is empty");
    let missing = Corpus::load(Some(Path::new("/no/such/file")), 4, &Tokenizer::bytes())
        .expect_err("missing");
    assert!(missing.to_string().contains("/no/such/file"), "{missing}");
}

#[test]
fn a_folder_is_read_in_the_order_of_its_names_and_other_files_are_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = Corpus::load(Some(folder.path()), 4, &Tokenizer::bytes()).expect_err("no files");
    assert!(matches!(empty, DataError::NoFiles(_)), "{empty}");
    for (name, letter) in [("b.md", "b"), ("a.txt", "a"), ("c.png", "c"), ("d.rs", "d")] {
        fs::write(folder.path().join(name), letter.repeat(100)).expect("written");
    }
    let corpus = Corpus::load(Some(folder.path()), 4, &Tokenizer::bytes()).expect("readable");
    let mut text = corpus.train.clone();
    text.extend(&corpus.validation.tokens);
    let expected = [[b'a'; 100], [b'b'; 100], [b'd'; 100]].concat();
    assert_eq!(
        text,
        expected.into_iter().map(u32::from).collect::<Vec<_>>()
    );
}

#[test]
fn the_text_that_comes_along_is_cicero() {
    let corpus = Corpus::load(None, 64, &Tokenizer::bytes()).expect("there");
    let begin = b"Non eram nescius, Brute".map(u32::from);
    assert!(corpus.train.starts_with(&begin));
}

#[test]
fn windows_depend_on_seed_and_step_only_and_stay_inside() {
    let corpus = corpus();
    let windows = |seed, step| corpus.train_windows(16, 64, seed, step);
    assert_eq!(windows(1, 2), windows(1, 2));
    assert_ne!(windows(1, 2), windows(1, 3));
    assert_ne!(windows(1, 2), windows(2, 2));
    for step in 0..100 {
        // A window and the token after it.
        assert!(windows(1, step).iter().all(|start| start + 17 <= 900));
    }
}

#[test]
fn validation_windows_reach_from_the_first_byte_to_the_last() {
    let corpus = corpus();
    let windows = corpus.validation_windows(16, 5);
    assert_eq!(windows.first(), Some(&0));
    assert_eq!(windows.last(), Some(&(100 - 17)));
    assert_eq!(corpus.validation_windows(16, 1), [0]);
}

#[test]
fn a_batch_of_eight_in_three_micro_batches_is_three_three_two() {
    let corpus = corpus();
    let device = Device::default();
    let windows = corpus.train_windows(16, 8, 0, 0);
    let parts = micro_batches(&corpus.train, &windows, 16, 3, (&device, &device));
    let rows: Vec<usize> = parts.iter().map(|part| part.weight / 16).collect();
    assert_eq!(rows, [3, 3, 2]);
    let mut seen = Vec::new();
    for part in &parts {
        let Activations::Tokens(tokens) = &part.input else {
            panic!("{:?}", part.input);
        };
        let input: Vec<i64> = tokens.clone().into_data().iter().collect();
        let target: Vec<i64> = part.target.clone().into_data().iter().collect();
        for (input, target) in input.chunks(16).zip(target.chunks(16)) {
            // The target is the input, one token later.
            assert_eq!(input[1..], target[..15]);
            seen.push(input[0]);
        }
    }
    let expected: Vec<i64> = windows
        .iter()
        .map(|&start| i64::from(corpus.train[start]))
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn the_unigram_entropy_is_the_one_worked_out_by_hand() {
    // 18 bytes to learn from: 12 a, 6 b. Two bytes of validation: a and c.
    let text = b"aabaabaabaabaabaabac";
    let corpus = Corpus::split("abc".to_owned(), text, 1, &Tokenizer::bytes()).expect("20 bytes");
    let total: f64 = 18.0 + 256.0;
    let expected = -((13.0 / total).ln() + (1.0 / total).ln()) / 2.0;
    assert!((corpus.unigram_entropy() - expected).abs() < 1e-12);
}

#[test]
fn bits_are_those_of_the_text_held_out_however_many_bytes_a_token_has_elsewhere() {
    // 45 tokens of one byte, then 5 of `ab`: behind the first of these there are 4, of 8 bytes.
    let json = crate::tokenizer::learn::learn(b"ab abab abab", "it", 257).expect("a text");
    let tokenizer = Tokenizer::from_json(json, Path::new("it")).expect("just made");
    let text = ["b".repeat(45), "ab".repeat(5)].concat();
    let corpus = Corpus::split("it".to_owned(), text.as_bytes(), 4, &tokenizer).expect("enough");
    assert_eq!(corpus.train.len(), 45);
    assert_eq!(corpus.validation.tokens, [256; 5]);
    assert_eq!(corpus.validation.name, "the last tenth of it");
    let bits = corpus
        .validation
        .bits_per_byte(4.0 * std::f64::consts::LN_2);
    assert!((bits - 2.0).abs() < 1e-12, "{bits}");
}

#[test]
fn bits_are_counted_by_the_byte_and_not_by_the_token() {
    // `ab` is one token, 256: of the text's 8 bytes the 6 behind the first token are predicted, with
    // 3 tokens.
    let json = crate::tokenizer::learn::learn(b"ab abab abab", "it", 257).expect("a text");
    let tokenizer = Tokenizer::from_json(json, Path::new("it")).expect("just made");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text.txt");
    fs::write(&path, "abababab").expect("written");
    let text = Text::read(&path, &tokenizer).expect("a text");
    assert_eq!(text.tokens, [256; 4]);
    assert_eq!((text.bytes, text.predicted), (8, 6));
    let bits = text.bits_per_byte(4.0 * std::f64::consts::LN_2);
    assert!((bits - 2.0).abs() < 1e-12, "{bits}");
    let bytes = Text::read(&path, &Tokenizer::bytes()).expect("a text");
    assert_eq!((bytes.tokens.len(), bytes.predicted), (8, 7));
    fs::write(&path, "ab").expect("written");
    let error = Text::read(&path, &tokenizer).expect_err("nothing to predict");
    assert!(error.to_string().contains("has one token"), "{error}");
}
