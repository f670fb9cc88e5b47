//! Files that hold something else, or not all of it.

use std::fs;

use gpt_example::pretrained::{Pretrained, PretrainedError};
use proptest::prelude::*;
use safetensors::tensor::Dtype;

use super::common::refused;
use super::{Tensors, tensors, train_args, weights, write};

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
