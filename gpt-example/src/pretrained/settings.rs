//! Hugging Face's `config.json` of a GPT-2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PretrainedError;
use super::sizes::Sizes;
use crate::config::{Activation, GptConfig, epsilon};

/// Its name.
pub(crate) const FILE: &str = "config.json";

/// Of what it says, what must be known; each field may be left out.
#[derive(Clone, Debug, Default, Deserialize)]
struct Fields {
    model_type: Option<String>,
    n_layer: Option<usize>,
    n_embd: Option<usize>,
    n_head: Option<usize>,
    n_positions: Option<usize>,
    vocab_size: Option<usize>,
    n_inner: Option<usize>,
    activation_function: Option<String>,
    layer_norm_epsilon: Option<f64>,
    scale_attn_weights: Option<bool>,
    scale_attn_by_inverse_layer_idx: Option<bool>,
    tie_word_embeddings: Option<bool>,
    add_cross_attention: Option<bool>,
}

/// A configuration that this model can have.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    path: PathBuf,
    fields: Fields,
    pub(super) activation: Activation,
    pub(super) norm_epsilon: f64,
}

impl Settings {
    /// The configuration beside a file of weights, if there is one.
    pub(super) fn beside(weights: &Path) -> Result<Option<Self>, PretrainedError> {
        let path = weights.with_file_name(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PretrainedError::read(&path)(error)),
        };
        let fields = serde_json::from_slice(&text).map_err(PretrainedError::settings(&path))?;
        Self::new(path, fields).map(Some)
    }

    fn new(path: PathBuf, fields: Fields) -> Result<Self, PretrainedError> {
        let unknown = |name, value: &dyn ToString| PretrainedError::Unknown {
            path: path.clone(),
            name,
            value: value.to_string(),
        };
        match fields.model_type.as_deref() {
            Some("gpt2") => {}
            Some(other) => return Err(unknown("model_type", &other)),
            None => return Err(PretrainedError::settings(&path)("it has no model_type")),
        }
        let activation = match fields.activation_function.as_deref() {
            // All three are the approximation, written differently.
            None | Some("gelu_new" | "gelu_fast" | "gelu_pytorch_tanh") => Activation::GeluTanh,
            Some("gelu") => Activation::Gelu,
            Some(other) => return Err(unknown("activation_function", &other)),
        };
        let flags = [
            ("scale_attn_weights", fields.scale_attn_weights, true),
            (
                "scale_attn_by_inverse_layer_idx",
                fields.scale_attn_by_inverse_layer_idx,
                false,
            ),
            ("tie_word_embeddings", fields.tie_word_embeddings, true),
            ("add_cross_attention", fields.add_cross_attention, false),
        ];
        for (name, value, known) in flags {
            if let Some(other) = value.filter(|&value| value != known) {
                return Err(unknown(name, &other));
            }
        }
        let norm_epsilon = fields.layer_norm_epsilon.unwrap_or(epsilon());
        if !(norm_epsilon.is_finite() && norm_epsilon > 0.0) {
            return Err(unknown("layer_norm_epsilon", &norm_epsilon));
        }
        Ok(Self {
            path,
            fields,
            activation,
            norm_epsilon,
        })
    }

    /// Finds that it is of a model of these sizes.
    pub(super) fn check(&self, sizes: &Sizes) -> Result<(), PretrainedError> {
        let fields = &self.fields;
        let both = [
            ("n_layer", fields.n_layer, sizes.layers),
            ("n_embd", fields.n_embd, sizes.width),
            ("n_positions", fields.n_positions, sizes.context),
            ("vocab_size", fields.vocab_size, sizes.vocabulary),
            ("n_inner", fields.n_inner, sizes.width.saturating_mul(4)),
        ];
        for (name, value, found) in both {
            if let Some(value) = value.filter(|&value| value != found) {
                return Err(PretrainedError::Contradiction {
                    path: self.path.clone(),
                    name,
                    value,
                    found,
                });
            }
        }
        Ok(())
    }

    /// Heads that share the width.
    pub(super) fn heads(&self) -> Option<usize> {
        self.fields.n_head
    }
}

/// Whether there is no file at `path`, or one of Hugging Face's.
pub(crate) fn may_be_replaced(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct Type {
        #[serde(rename = "model_type")]
        _model_type: String,
    }
    match fs::read(path) {
        Ok(text) => serde_json::from_slice::<Type>(&text).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The configuration of a model; `end` is the token that ends a text, if there is one.
pub(crate) fn written(config: &GptConfig, end: Option<u32>) -> impl Serialize + use<> {
    let dropout = config.dropout;
    json!({
        "activation_function": match config.activation {
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_new",
        },
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": dropout,
        "bos_token_id": end,
        "embd_pdrop": dropout,
        "eos_token_id": end,
        "layer_norm_epsilon": config.norm_epsilon,
        "model_type": "gpt2",
        "n_embd": config.d_model,
        "n_head": config.heads,
        "n_inner": Value::Null,
        "n_layer": config.layers,
        "n_positions": config.context,
        "resid_pdrop": dropout,
        "tie_word_embeddings": true,
        "torch_dtype": "float32",
        "vocab_size": config.vocabulary - config.padding,
    })
}
