//! The sizes of a model.
//!
//! They are checked in one place, so that building a model cannot fail.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// No size may be larger: sizes then multiply without overflow, and no machine holds more.
pub const LARGEST: usize = 1 << 16;

/// The sizes of a [`Gpt`](crate::Gpt).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GptConfig {
    /// Transformer layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Attention heads; they share the width.
    pub heads: usize,
    /// The most tokens that a prediction may look at.
    pub context: usize,
    /// Rows of the token embedding.
    pub vocabulary: usize,
    /// How many of them, the last ones, stand for no token: they are there so that ranks can share
    /// the vocabulary evenly, and are never predicted.
    #[serde(default)]
    pub padding: usize,
    /// Probability of dropping an element, in `[0, 1)`.
    pub dropout: f64,
    /// What lies between the products of the MLP.
    #[serde(default)]
    pub activation: Activation,
    /// What norms add to the variance.
    #[serde(default = "epsilon")]
    pub norm_epsilon: f64,
}

/// Which function is called GELU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// The exact function
    #[default]
    Gelu,
    /// Its approximation with a hyperbolic tangent, which GPT-2 was trained with
    GeluTanh,
}

/// What norms add to the variance, in GPT-2 and if nothing is said.
pub(crate) const fn epsilon() -> f64 {
    1e-5
}

/// Whose modules a [`Gpt`](crate::Gpt) is made of; parameters and their names are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Modules {
    /// `lynx_burn::nn`: fused operations that keep what cannot be made again cheaply
    #[default]
    Lynx,
    /// Burn's own, for comparison
    Burn,
}

/// Sizes that make no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A size is zero or absurd.
    #[error("{name} must be between 1 and {LARGEST}, got {value}")]
    Size {
        /// Which size.
        name: &'static str,
        /// Its value.
        value: usize,
    },
    /// The heads cannot share the width.
    #[error("{heads} heads do not divide a width of {d_model} evenly")]
    Heads {
        /// The heads.
        heads: usize,
        /// The width.
        d_model: usize,
    },
    /// The ranks cannot share the model.
    #[error("{ranks} ranks cannot share {number} {what} evenly{}", remedy(what))]
    Ranks {
        /// The ranks.
        ranks: usize,
        /// How many there are of what they share.
        number: usize,
        /// What they share.
        what: &'static str,
    },
    /// Nothing is left to predict.
    #[error("a vocabulary of {vocabulary} has no token if {padding} of them are padding")]
    Padding {
        /// The rows.
        vocabulary: usize,
        /// Those without a token.
        padding: usize,
    },
    /// Nothing that norms could add.
    #[error("the norms' epsilon must be above 0 and finite, got {0}")]
    Epsilon(f64),
    /// Not the probability of a dropout.
    #[error("dropout must be at least 0 and below 1, got {0}")]
    Dropout(f64),
}

/// What helps where ranks cannot share something.
fn remedy(what: &str) -> &'static str {
    match what {
        TOKENS => ": see --pad-vocabulary",
        _ => "",
    }
}

/// What the vocabulary has.
const TOKENS: &str = "tokens";

impl GptConfig {
    /// The model of `gpt train`, if nothing is said.
    pub const NANO: Self = Self {
        layers: 4,
        d_model: 128,
        heads: 4,
        context: 64,
        vocabulary: 256,
        padding: 0,
        dropout: 0.05,
        activation: Activation::Gelu,
        norm_epsilon: epsilon(),
    };

    /// Checks that there is such a model.
    ///
    /// # Errors
    ///
    /// Names the first value at fault.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let sizes = [
            ("the number of layers", self.layers),
            ("the width", self.d_model),
            ("the number of heads", self.heads),
            ("the context", self.context),
            ("the vocabulary", self.vocabulary),
        ];
        for (name, value) in sizes {
            if !(1..=LARGEST).contains(&value) {
                return Err(ConfigError::Size { name, value });
            }
        }
        if !self.d_model.is_multiple_of(self.heads) {
            return Err(ConfigError::Heads {
                heads: self.heads,
                d_model: self.d_model,
            });
        }
        if self.padding >= self.vocabulary {
            return Err(ConfigError::Padding {
                vocabulary: self.vocabulary,
                padding: self.padding,
            });
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon > 0.0) {
            return Err(ConfigError::Epsilon(self.norm_epsilon));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ConfigError::Dropout(self.dropout));
        }
        Ok(())
    }

    /// Checks that so many ranks can share the model.
    ///
    /// # Errors
    ///
    /// Names what they cannot share.
    pub fn check_ranks(&self, ranks: usize) -> Result<(), ConfigError> {
        // The width of the MLP is a multiple of the heads.
        let shared = [("heads", self.heads), (TOKENS, self.vocabulary)];
        let uneven = |(_, number): &(_, usize)| ranks == 0 || !number.is_multiple_of(ranks);
        match shared.into_iter().find(uneven) {
            None => Ok(()),
            Some((what, number)) => Err(ConfigError::Ranks {
                ranks,
                number,
                what,
            }),
        }
    }

    /// Learnt numbers of the whole model, the tied embedding counted once.
    pub fn parameters(&self) -> usize {
        self.parameters_of_rank(1)
    }

    /// Those that each of so many ranks holds.
    pub fn parameters_of_rank(&self, ranks: usize) -> usize {
        let d = self.d_model;
        // Weights: 3 + 1 of attention, 4 + 4 of the MLP. Biases of what is split by columns.
        let shared = self.vocabulary * d + self.layers * (12 * d * d + 7 * d);
        // Biases of what is split by rows, and two norms.
        let whole = self.context * d + self.layers * (2 * d + 4 * d) + 2 * d;
        shared / ranks.max(1) + whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> GptConfig {
        GptConfig {
            layers: 2,
            d_model: 8,
            heads: 2,
            context: 4,
            vocabulary: 10,
            dropout: 0.1,
            ..GptConfig::NANO
        }
    }

    #[test]
    fn a_sensible_model_is_accepted() {
        assert_eq!(small().validate(), Ok(()));
    }

    #[test]
    fn every_size_of_zero_is_refused_by_name() {
        type Zero = fn(&mut GptConfig);
        let zeroed: [(&str, Zero); 5] = [
            ("layers", |c| c.layers = 0),
            ("width", |c| c.d_model = 0),
            ("heads", |c| c.heads = 0),
            ("context", |c| c.context = 0),
            ("vocabulary", |c| c.vocabulary = 0),
        ];
        for (name, zero) in zeroed {
            let mut config = small();
            zero(&mut config);
            let error = config.validate().expect_err(name).to_string();
            assert!(error.contains(name) && error.ends_with("got 0"), "{error}");
        }
    }

    #[test]
    fn heads_that_do_not_divide_the_width_are_refused() {
        let config = GptConfig {
            heads: 3,
            ..small()
        };
        let error = ConfigError::Heads {
            heads: 3,
            d_model: 8,
        };
        assert_eq!(config.validate(), Err(error));
    }

    #[test]
    fn a_dropout_that_is_no_probability_is_refused() {
        for dropout in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            let config = GptConfig { dropout, ..small() };
            assert!(config.validate().is_err(), "{dropout}");
        }
    }

    #[test]
    fn an_epsilon_of_nothing_and_a_vocabulary_of_padding_alone_are_refused() {
        for norm_epsilon in [0.0, -1e-5, f64::NAN, f64::INFINITY] {
            let config = GptConfig {
                norm_epsilon,
                ..small()
            };
            assert!(config.validate().is_err(), "{norm_epsilon}");
        }
        let padded = |padding| GptConfig { padding, ..small() };
        assert_eq!(padded(9).validate(), Ok(()));
        let error = padded(10).validate().expect_err("no token").to_string();
        assert!(error.contains("vocabulary of 10"), "{error}");
    }

    /// Of a save by a version that knew one GELU and one epsilon.
    #[test]
    fn a_configuration_without_the_newer_fields_is_read_as_what_it_was() {
        let old =
            r#"{"layers":4,"d_model":128,"heads":4,"context":64,"vocabulary":256,"dropout":0.05}"#;
        let read: GptConfig = serde_json::from_str(old).expect("sizes");
        assert_eq!(read, GptConfig::NANO);
    }

    #[test]
    fn ranks_that_do_not_divide_what_they_share_are_refused() {
        let config = GptConfig {
            heads: 4,
            ..small()
        };
        assert_eq!(config.check_ranks(2), Ok(()));
        for (ranks, named) in [(3, "4 heads"), (4, "10 tokens"), (0, "0 ranks")] {
            let error = config.check_ranks(ranks).expect_err("uneven").to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
