//! What a run is, for `config.json` and for people.

use serde::Serialize;

use crate::cli::TrainArgs;
use crate::config::GptConfig;
use crate::data::Corpus;

/// What is written to `config.json`.
#[derive(Serialize)]
pub(crate) struct Configuration<'a> {
    pub(crate) options: &'a TrainArgs,
    pub(crate) model: &'a GptConfig,
    pub(crate) parameters: usize,
    pub(crate) layers_per_stage: Vec<usize>,
    pub(crate) unigram_entropy: f64,
}

/// What there is to know of a run before it begins, by name.
pub(crate) fn about(
    configuration: &Configuration<'_>,
    corpus: &Corpus,
) -> Vec<(&'static str, String)> {
    let (args, model) = (configuration.options, configuration.model);
    let layers: Vec<String> = configuration
        .layers_per_stage
        .iter()
        .map(usize::to_string)
        .collect();
    let model = format!(
        "{} layers, width {}, {} heads, context {}, vocabulary {}: {:.2} M parameters",
        model.layers,
        model.d_model,
        model.heads,
        model.context,
        model.vocabulary,
        configuration.parameters as f64 / 1e6
    );
    let ranks = match args.overlap.tp {
        1 => String::new(),
        ranks => format!(", {ranks} ranks each"),
    };
    let replicas = match args.overlap.replicas {
        1 => String::new(),
        replicas => format!("{replicas} replicas of "),
    };
    let pipeline = format!(
        "{replicas}{} stages of {} layers{ranks}, {}, {} micro-batches, policy {}",
        layers.len(),
        layers.join(" + "),
        args.pipeline.schedule,
        args.pipeline.micro_batches,
        args.pipeline.policy
    );
    let unit = corpus.unit();
    let corpus = format!(
        "{}: {} {unit}s to learn, {} to validate, unigram entropy {:.4} nats a {unit}",
        corpus.name,
        corpus.train.len(),
        corpus.validation.tokens.len(),
        configuration.unigram_entropy
    );
    vec![("model", model), ("pipeline", pipeline), ("corpus", corpus)]
}
