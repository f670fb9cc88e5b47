//! What Hugging Face's GPT-2 calls our parameters.

/// The head, which repeats the embedding where it is written at all.
pub(super) const HEAD: &str = "lm_head.weight";
/// The token embedding.
pub(crate) const EMBEDDING: &str = "wte.weight";
/// The positions.
pub(super) const POSITIONS: &str = "wpe.weight";
/// Before all names but the head's, where the file is of a model with a head.
pub(crate) const PREFIX: &str = "transformer.";

/// Tensors before all layers: our path, and theirs.
const FIRST: [(&str, &str); 2] = [
    ("token_embedding.weight", EMBEDDING),
    ("position_embedding.weight", POSITIONS),
];

/// The norm behind all layers: ours, and theirs.
const LAST: (&str, &str) = ("final_norm", "ln_f");

/// Modules of a layer: ours, and theirs.
const MODULES: [(&str, &str); 6] = [
    ("attention_norm", "ln_1"),
    ("qkv", "attn.c_attn"),
    ("projection", "attn.c_proj"),
    ("mlp_norm", "ln_2"),
    ("expand", "mlp.c_fc"),
    ("contract", "mlp.c_proj"),
];

/// Buffers of old files that hold no weights: the causal mask, and what stands for minus infinity.
const BUFFERS: [&str; 2] = ["attn.bias", "attn.masked_bias"];

/// A tensor of a GPT-2, with the names of its modules and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Our path.
    pub(crate) path: String,
    /// Theirs, without prefix.
    pub(crate) name: String,
    /// Its shape.
    pub(crate) dims: Vec<usize>,
}

/// Every tensor of a GPT-2 of these sizes, in the order of the computation.
pub(crate) fn all(
    (layers, width): (usize, usize),
    (vocabulary, context): (usize, usize),
) -> impl Iterator<Item = Named> {
    let rows = FIRST.into_iter().zip([vocabulary, context]);
    let first = rows.map(move |((path, name), rows)| Named {
        path: path.to_owned(),
        name: name.to_owned(),
        dims: vec![rows, width],
    });
    let inner = (0..layers).flat_map(move |layer| {
        MODULES.into_iter().flat_map(move |(ours, theirs)| {
            let (ours, theirs) = (
                format!("layers.{layer}.{ours}"),
                format!("h.{layer}.{theirs}"),
            );
            pair(&ours, &theirs, width)
        })
    });
    let last = pair(LAST.0, LAST.1, width);
    first.chain(inner).chain(last)
}

/// Weight and bias of a module. What is wider than theirs cannot be held by any machine.
fn pair(ours: &str, theirs: &str, width: usize) -> [Named; 2] {
    let times = |by: usize| width.saturating_mul(by);
    let (weight, bias) = match theirs.rsplit('.').next() {
        Some("c_attn") => (vec![width, times(3)], times(3)),
        Some("c_fc") => (vec![width, times(4)], times(4)),
        Some("c_proj") if theirs.contains("mlp") => (vec![times(4), width], width),
        Some("c_proj") => (vec![width, width], width),
        _ => (vec![width], width),
    };
    let [first, second] = match weight.len() {
        1 => ["gamma", "beta"],
        _ => ["weight", "bias"],
    };
    [
        Named {
            path: format!("{ours}.{first}"),
            name: format!("{theirs}.weight"),
            dims: weight,
        },
        Named {
            path: format!("{ours}.{second}"),
            name: format!("{theirs}.bias"),
            dims: vec![bias],
        },
    ]
}

/// A name as it is without a head.
pub(super) fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The layer that a tensor belongs to.
pub(super) fn layer(name: &str) -> Option<usize> {
    let (layer, _) = name.strip_prefix("h.")?.split_once('.')?;
    layer.parse().ok()
}

/// Whether it is no weight and may be left out.
pub(super) fn is_buffer(name: &str) -> bool {
    let inner = name
        .strip_prefix("h.")
        .and_then(|rest| rest.split_once('.'));
    inner.is_some_and(|(layer, inner)| layer.parse::<usize>().is_ok() && BUFFERS.contains(&inner))
}

/// Theirs for a path of ours.
pub(crate) fn of(path: &str) -> Option<String> {
    if let Some((_, name)) = FIRST.into_iter().find(|(ours, _)| *ours == path) {
        return Some(name.to_owned());
    }
    let (module, parameter) = path.rsplit_once('.')?;
    let module = match module.strip_prefix("layers.") {
        None if module == LAST.0 => LAST.1.to_owned(),
        None => return None,
        Some(inner) => {
            let (layer, ours) = inner.split_once('.')?;
            let (_, theirs) = MODULES.into_iter().find(|(name, _)| *name == ours)?;
            format!("h.{layer}.{theirs}")
        }
    };
    match parameter {
        "weight" | "gamma" => Some(format!("{module}.weight")),
        "bias" | "beta" => Some(format!("{module}.bias")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GptConfig;

    #[test]
    fn every_tensor_has_the_name_of_its_path_and_together_they_are_the_model() {
        let config = GptConfig {
            layers: 3,
            ..GptConfig::NANO
        };
        let sizes = (config.layers, config.d_model);
        let all: Vec<Named> = all(sizes, (config.vocabulary, config.context)).collect();
        for one in &all {
            assert_eq!(of(&one.path).as_deref(), Some(one.name.as_str()));
        }
        let numbers = all.iter().map(|one| one.dims.iter().product::<usize>());
        assert_eq!(numbers.sum::<usize>(), config.parameters());
        for path in [
            "",
            "layers",
            "layers.0",
            "layers.0.qkv",
            "layers.x",
            "head.weight",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
