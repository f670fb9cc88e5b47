//! Models by name: the one list, which planning by formulas reads too, as options of a training run.

use std::collections::BTreeSet;

use lynx_burn::plan::profile::GptSize;

use crate::check::SettingsError;
use crate::cli::ModelArgs;
use crate::config::{Activation, GptConfig};

/// Of every GPT-2 and what came after it.
const DROPOUT: f64 = 0.1;

impl ModelArgs {
    /// Takes what was not given from the preset, if there is one. `given` are the options that were
    /// written out, by their names in the code.
    ///
    /// # Errors
    ///
    /// If there is no such preset, or it can only be planned.
    pub fn settle(&mut self, given: &BTreeSet<String>) -> Result<(), SettingsError> {
        let Some(name) = &self.preset else {
            return Ok(());
        };
        let preset = config_of(name)?;
        let given = |name: &str| given.contains(name);
        let sizes = [
            ("layers", &mut self.layers, preset.layers),
            ("width", &mut self.width, preset.d_model),
            ("heads", &mut self.heads, preset.heads),
            ("context", &mut self.context, preset.context),
        ];
        for (name, size, value) in sizes {
            if !given(name) {
                *size = value;
            }
        }
        if !given("vocabulary") {
            self.vocabulary = Some(preset.vocabulary);
        }
        if !given("dropout") {
            self.dropout = preset.dropout;
        }
        if !given("activation") {
            self.activation = preset.activation;
        }
        Ok(())
    }
}

/// The model of a name.
fn config_of(name: &str) -> Result<GptConfig, SettingsError> {
    let size: GptSize = name.parse()?;
    if !(size.tied && size.learned_positions) {
        return Err(SettingsError::OnlyPlanned(size.name));
    }
    // What no machine can address is refused as too large.
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let sizes = GptConfig {
        layers: count(size.layers),
        d_model: count(size.hidden),
        heads: count(size.heads),
        context: count(size.context),
        vocabulary: count(size.vocabulary),
        ..GptConfig::NANO
    };
    Ok(match name {
        "nano" => sizes,
        _ => GptConfig {
            dropout: DROPOUT,
            activation: Activation::GeluTanh,
            ..sizes
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::train_args;

    fn settled(arguments: &str) -> Result<GptConfig, SettingsError> {
        let mut args = train_args(arguments).expect("clap accepts it");
        args.model.settle(&args.given)?;
        Ok(args.config())
    }

    #[test]
    fn nano_is_what_is_trained_if_nothing_is_said() {
        assert_eq!(settled("--preset nano"), settled(""));
        assert_eq!(settled(""), Ok(GptConfig::NANO));
    }

    #[test]
    fn every_preset_that_can_be_trained_is_a_valid_model_of_its_parameters() {
        for name in GptSize::NAMES {
            let size: GptSize = name.parse().expect("known");
            let Ok(config) = settled(&format!("--preset {name}")) else {
                assert_eq!(name, "20b");
                continue;
            };
            assert_eq!(config.validate(), Ok(()), "{name}");
            let parameters = size.parameters(size.context);
            assert_eq!(config.parameters() as u64, parameters, "{name}");
        }
        let error = settled("--preset 20b").expect_err("other layers");
        assert!(error.to_string().contains("gpt plan --model 20b"));
    }

    #[test]
    fn options_beside_a_preset_win() {
        let config =
            settled("--preset gpt2 --layers 2 --context 128 --activation gelu --dropout 0");
        let gpt2 = settled("--preset gpt2").expect("known");
        assert_eq!(gpt2.activation, Activation::GeluTanh);
        let expected = GptConfig {
            layers: 2,
            context: 128,
            activation: Activation::Gelu,
            dropout: 0.0,
            ..gpt2
        };
        assert_eq!(config, Ok(expected));
    }
}
