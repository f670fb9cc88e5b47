//! A model's options from a file of weights.

use std::collections::BTreeSet;

use clap::ValueEnum;

use super::{Pretrained, PretrainedError};
use crate::cli::ModelArgs;
use crate::config::Activation;
use crate::tokenizer::Tokenizer;

impl Pretrained {
    /// Makes the options those of the file. `given` are the options that were written out, by their
    /// names in the code; those of a preset count as written out.
    ///
    /// # Errors
    ///
    /// If an option asks for something else, or nobody says how many heads there are.
    pub fn adopt(
        &self,
        model: &mut ModelArgs,
        given: &BTreeSet<String>,
    ) -> Result<(), PretrainedError> {
        let (sizes, settings) = (self.sizes, self.settings.as_ref());
        let asked = |name: &str| given.contains(name);
        let preset = model.preset.is_some();
        let named = |name: &str| match &model.preset {
            Some(preset) if !asked(name) => format!("--preset {preset}"),
            _ => format!("--{}", name.replace('_', "-")),
        };
        let heads = settings.and_then(|settings| settings.heads());
        let heads = heads.or((asked("heads") || preset).then_some(model.heads));
        let heads =
            heads.ok_or_else(|| PretrainedError::NoHeads(self.tensors.path().to_owned()))?;
        let numbers = [
            ("layers", "layers", model.layers, sizes.layers),
            ("width", "a width of", model.width, sizes.width),
            ("heads", "heads", model.heads, heads),
            ("context", "a context of", model.context, sizes.context),
        ];
        let vocabulary = model.vocabulary.unwrap_or(sizes.vocabulary);
        let vocabulary = (
            "vocabulary",
            "a vocabulary of",
            vocabulary,
            sizes.vocabulary,
        );
        for (name, what, value, found) in numbers.into_iter().chain([vocabulary]) {
            if value != found && (asked(name) || preset) {
                let told = |number: usize| match what.strip_suffix(" of") {
                    Some(what) => format!("{what} of {number}"),
                    None => format!("{number} {what}"),
                };
                return Err(self.contradicted(named(name), told(value), told(found)));
            }
        }
        if let Some(settings) = settings {
            let (asked_for, found) = (model.activation, settings.activation);
            if asked("activation") && asked_for != found {
                let told = |one: Activation| {
                    let value = one.to_possible_value();
                    value.map_or_else(String::new, |value| value.get_name().to_owned())
                };
                let option = "--activation".to_owned();
                return Err(self.contradicted(option, told(asked_for), told(found)));
            }
            let (asked_for, found) = (model.norm_epsilon, settings.norm_epsilon);
            if asked("norm_epsilon") && asked_for != found {
                let told = |one: f64| format!("an epsilon of {one:e}");
                let option = "--norm-epsilon".to_owned();
                return Err(self.contradicted(option, told(asked_for), told(found)));
            }
            model.activation = settings.activation;
            model.norm_epsilon = settings.norm_epsilon;
        } else if !asked("activation") {
            model.activation = Activation::GeluTanh;
        }
        model.layers = sizes.layers;
        model.width = sizes.width;
        model.heads = heads;
        model.context = sizes.context;
        model.vocabulary = Some(sizes.vocabulary);
        Ok(())
    }

    /// Finds that the file's tokens are not taken for bytes.
    ///
    /// # Errors
    ///
    /// If they would be.
    pub fn check_tokenizer(&self, tokenizer: &Tokenizer) -> Result<(), PretrainedError> {
        let vocabulary = self.sizes.vocabulary;
        match tokenizer.json() {
            None if vocabulary != tokenizer.vocabulary() => Err(PretrainedError::NoTokenizer {
                path: self.tensors.path().to_owned(),
                vocabulary,
            }),
            _ => Ok(()),
        }
    }

    fn contradicted(&self, option: String, asked: String, found: String) -> PretrainedError {
        PretrainedError::Asked {
            option,
            asked,
            path: self.tensors.path().to_owned(),
            found,
        }
    }
}
