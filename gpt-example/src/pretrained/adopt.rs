//! A model's options from a file of weights.

use std::collections::BTreeSet;

use clap::ValueEnum;

use super::{Pretrained, PretrainedError};
use crate::cli::ModelArgs;
use crate::config::Activation;
use crate::tokenizer::Tokenizer;

/// What the options ask for, next to what the file has.
struct Asked<'a> {
    model: &'a ModelArgs,
    /// Options that were written out.
    given: &'a BTreeSet<String>,
}

impl Asked<'_> {
    fn option(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// Whether somebody asked for this size; a preset asks for all of them.
    fn size(&self, name: &str) -> bool {
        self.option(name) || self.model.preset.is_some()
    }

    /// What asked.
    fn who(&self, name: &str) -> String {
        match &self.model.preset {
            Some(preset) if !self.option(name) => format!("--preset {preset}"),
            _ => format!("--{}", name.replace('_', "-")),
        }
    }
}

impl Pretrained {
    /// Makes the options those of the file. `given` are the options that were written out, by their
    /// names in the code; the sizes of a preset count as written out.
    ///
    /// # Errors
    ///
    /// If an option asks for something else, or nobody says how many heads there are.
    pub fn adopt(
        &self,
        model: &mut ModelArgs,
        given: &BTreeSet<String>,
    ) -> Result<(), PretrainedError> {
        let asked = Asked { model, given };
        let heads = self.heads(&asked)?;
        self.check_sizes(&asked, heads)?;
        let (activation, norm_epsilon) = self.functions(&asked)?;
        model.layers = self.sizes.layers;
        model.width = self.sizes.width;
        model.heads = heads;
        model.context = self.sizes.context;
        model.vocabulary = Some(self.sizes.vocabulary);
        model.activation = activation;
        model.norm_epsilon = norm_epsilon;
        Ok(())
    }

    /// Shapes do not tell.
    fn heads(&self, asked: &Asked<'_>) -> Result<usize, PretrainedError> {
        let settings = self.settings.as_ref();
        let own = settings.and_then(|settings| settings.heads());
        let heads = own.or(asked.size("heads").then_some(asked.model.heads));
        heads.ok_or_else(|| PretrainedError::NoHeads(self.tensors.path().to_owned()))
    }

    fn check_sizes(&self, asked: &Asked<'_>, heads: usize) -> Result<(), PretrainedError> {
        let (model, sizes) = (asked.model, &self.sizes);
        let vocabulary = model.vocabulary.unwrap_or(sizes.vocabulary);
        type Told = fn(usize) -> String;
        let numbers: [(&str, usize, usize, Told); 5] = [
            ("layers", model.layers, sizes.layers, |n| {
                format!("{n} layers")
            }),
            ("width", model.width, sizes.width, |n| {
                format!("a width of {n}")
            }),
            ("heads", model.heads, heads, |n| format!("{n} heads")),
            ("context", model.context, sizes.context, |n| {
                format!("a context of {n}")
            }),
            ("vocabulary", vocabulary, sizes.vocabulary, |n| {
                format!("a vocabulary of {n}")
            }),
        ];
        for (name, value, found, told) in numbers {
            if value != found && asked.size(name) {
                return Err(self.contradicted(asked.who(name), told(value), told(found)));
            }
        }
        Ok(())
    }

    /// What the model computes with: the configuration's, which options must not contradict, or what
    /// the options say where there is none; GPT-2's GELU if they say nothing.
    fn functions(&self, asked: &Asked<'_>) -> Result<(Activation, f64), PretrainedError> {
        let model = asked.model;
        let Some(settings) = &self.settings else {
            let activation = match asked.option("activation") {
                true => model.activation,
                false => Activation::GeluTanh,
            };
            return Ok((activation, model.norm_epsilon));
        };
        let (value, found) = (model.activation, settings.activation);
        if value != found && asked.option("activation") {
            let option = asked.who("activation");
            return Err(self.contradicted(option, name(value), name(found)));
        }
        let (value, found) = (model.norm_epsilon, settings.norm_epsilon);
        if value != found && asked.option("norm_epsilon") {
            let told = |epsilon: f64| format!("an epsilon of {epsilon:e}");
            let option = asked.who("norm_epsilon");
            return Err(self.contradicted(option, told(value), told(found)));
        }
        Ok((settings.activation, settings.norm_epsilon))
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

/// As it is written on the command line.
fn name(activation: Activation) -> String {
    let value = activation.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}
