//! What is trained, on how many threads, with how much communication.

use super::BenchError;
use crate::config::{GptConfig, Modules};

/// A model, its training, and the links.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What it is called in results.
    pub name: String,
    /// What it is about, in a line.
    pub about: String,
    /// The model.
    pub config: GptConfig,
    /// Whose modules it is made of.
    pub modules: Modules,
    /// Ranks that share a stage.
    pub ranks: usize,
    /// Stages of the pipeline.
    pub stages: usize,
    /// Micro-batches of a step.
    pub micro_batches: usize,
    /// Windows of text in a micro-batch.
    pub windows: usize,
    /// How much of a step without recompute is communication.
    pub communication: f64,
    /// What the budget leaves for activations, as a multiple of what full recompute with
    /// collectives kept needs for them.
    pub room: f64,
}

/// The settings there are.
pub const SETTINGS: [&str; 5] = [
    "tensor-45",
    "tensor-45-burn",
    "tensor-30",
    "pipeline-30",
    "alone",
];

/// The model of all settings: a step takes a third of a second on a core.
pub(super) fn model() -> GptConfig {
    GptConfig {
        layers: 4,
        d_model: 256,
        heads: 8,
        context: 128,
        vocabulary: 256,
        dropout: 0.1,
        ..GptConfig::NANO
    }
}

impl Setting {
    /// The setting of this name.
    fn named(name: &str) -> Option<Self> {
        let setting = |about: &str, (ranks, stages): (usize, usize), communication| Self {
            name: name.to_owned(),
            about: about.to_owned(),
            config: model(),
            modules: Modules::Lynx,
            ranks,
            stages,
            micro_batches: 2,
            windows: 4,
            communication,
            room: 1.1,
        };
        Some(match name {
            "tensor-45" => setting("two ranks, 45 % of a step are their sums", (2, 1), 0.45),
            "tensor-45-burn" => Self {
                modules: Modules::Burn,
                ..setting(
                    "two ranks, 45 % of a step are their sums, Burn's modules",
                    (2, 1),
                    0.45,
                )
            },
            "tensor-30" => setting("two ranks, 30 % of a step are their sums", (2, 1), 0.30),
            "pipeline-30" => Self {
                micro_batches: 6,
                windows: 2,
                room: 1.5,
                ..setting("two stages, 30 % of a step are transfers", (1, 2), 0.30)
            },
            "alone" => Self {
                room: 2.0,
                ..setting("one core, no communication", (1, 1), 0.0)
            },
            _ => return None,
        })
    }
}

/// The settings of these names, or all.
pub(super) fn named(names: &[String]) -> Result<Vec<Setting>, BenchError> {
    let all = || SETTINGS.iter().map(|&name| name.to_owned()).collect();
    let names = if names.is_empty() {
        all()
    } else {
        names.to_vec()
    };
    let found = names.into_iter().map(|name| {
        let setting = Setting::named(&name);
        setting.ok_or(BenchError::UnknownSetting { name })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_found_by_its_name_and_its_model_is_valid() {
        let all = named(&[]).expect("known");
        assert_eq!(all.len(), SETTINGS.len());
        for setting in all {
            assert!(setting.config.validate().is_ok(), "{setting:?}");
            assert_eq!(setting.config.heads % setting.ranks, 0);
        }
        let error = named(&["tensor".to_owned()]).expect_err("unknown");
        assert!(error.to_string().contains("\"tensor\""), "{error}");
    }
}
