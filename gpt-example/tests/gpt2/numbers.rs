//! Logits are transformers' own, in every cut, precision and way of writing the file.

use std::fs;

use burn::tensor::{bf16, f16};
use safetensors::tensor::Dtype;

use super::{CLOSE, distance, logits, tensors, theirs, weights, write};

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
