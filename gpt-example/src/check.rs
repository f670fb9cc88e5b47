//! Options that are fine one by one and make no sense together.
//!
//! Checked before any file is read and any thread started. Whether layers can be dealt to the
//! stages, and whether a policy fits, `lynx-burn` knows and says better.

mod error;

use lynx_burn::Split;

pub use error::SettingsError;

use crate::cli::{BudgetArgs, GenerateArgs, ModelArgs, OverlapKind, TrainArgs};
use crate::config::GptConfig;
use crate::schedule::LearningRate;
use crate::tokenizer::VOCABULARY;

const POSITIVE: &str = "above 0";
const AT_LEAST_ZERO: &str = "0 or more";

impl GenerateArgs {
    /// Checks what clap cannot.
    ///
    /// # Errors
    ///
    /// Names the option at fault.
    pub fn check(&self) -> Result<(), SettingsError> {
        let value = self.temperature;
        if !(value.is_finite() && value >= 0.0) {
            return Err(SettingsError::Number {
                option: "--temperature",
                allowed: AT_LEAST_ZERO,
                value,
            });
        }
        Ok(())
    }
}

impl ModelArgs {
    /// The sizes of the model.
    pub fn config(&self) -> GptConfig {
        let tokens = self.vocabulary.unwrap_or(VOCABULARY);
        // What is beyond all bounds is refused as such later on.
        let vocabulary = tokens
            .checked_next_multiple_of(self.pad_vocabulary)
            .unwrap_or(usize::MAX);
        GptConfig {
            layers: self.layers,
            d_model: self.width,
            heads: self.heads,
            context: self.context,
            vocabulary,
            padding: vocabulary - tokens,
            dropout: self.dropout,
            activation: self.activation,
            norm_epsilon: self.norm_epsilon,
        }
    }
}

impl TrainArgs {
    /// The sizes of the model.
    pub fn config(&self) -> GptConfig {
        self.model.config()
    }

    /// How the chain is cut into stages.
    pub fn split(&self) -> Split {
        match &self.pipeline.layers_per_stage {
            Some(layers) => Split::Layers(layers.clone()),
            None => Split::Even(self.pipeline.stages.unwrap_or(self.model.layers.min(2))),
        }
    }

    /// How the learning rate moves.
    pub fn learning_rate(&self) -> LearningRate {
        let training = &self.training;
        LearningRate {
            peak: training.learning_rate,
            floor: training
                .min_learning_rate
                .unwrap_or(training.learning_rate / 10.0),
            warmup: training.warmup.unwrap_or(training.steps / 20),
            steps: training.steps,
        }
    }

    /// Checks what clap cannot.
    ///
    /// # Errors
    ///
    /// Names the first option at fault, or the two that contradict each other.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.config().validate()?;
        self.config().check_ranks(self.overlap.tp)?;
        self.check_overlap()?;
        let (pipeline, training) = (&self.pipeline, &self.training);
        if pipeline.micro_batches > training.batch() {
            return Err(SettingsError::MicroBatches {
                micro_batches: pipeline.micro_batches,
                batch: training.batch(),
            });
        }
        let (micro_batches, replicas) = (pipeline.micro_batches, self.overlap.replicas);
        if replicas == 0 || !micro_batches.is_multiple_of(replicas) {
            return Err(SettingsError::Replicas {
                micro_batches,
                replicas,
            });
        }
        if let (Some(stages), Some(layers)) = (pipeline.stages, &pipeline.layers_per_stage)
            && stages != layers.len()
        {
            return Err(SettingsError::Stages {
                stages,
                listed: layers.len(),
            });
        }
        let rate = self.learning_rate();
        let positive = |value: f64| value > 0.0;
        let at_least_zero = |value: f64| value >= 0.0;
        type Number = (&'static str, f64, fn(f64) -> bool, &'static str);
        let numbers: [Number; 6] = [
            ("--learning-rate", rate.peak, positive, POSITIVE),
            (
                "--min-learning-rate",
                rate.floor,
                at_least_zero,
                AT_LEAST_ZERO,
            ),
            (
                "--weight-decay",
                training.weight_decay,
                at_least_zero,
                AT_LEAST_ZERO,
            ),
            ("--clip", training.clip, at_least_zero, AT_LEAST_ZERO),
            (
                "--temperature",
                self.output.temperature,
                at_least_zero,
                AT_LEAST_ZERO,
            ),
            (
                "--replan-above",
                self.budget.replan_above,
                at_least_zero,
                AT_LEAST_ZERO,
            ),
        ];
        for (option, value, is_allowed, allowed) in numbers {
            if !(value.is_finite() && is_allowed(value)) {
                return Err(SettingsError::Number {
                    option,
                    allowed,
                    value,
                });
            }
        }
        if rate.floor > rate.peak {
            return Err(SettingsError::MinLearningRate {
                minimum: rate.floor,
                rate: rate.peak,
            });
        }
        if rate.warmup > rate.steps {
            return Err(SettingsError::Warmup {
                warmup: rate.warmup,
                steps: rate.steps,
            });
        }
        Ok(())
    }

    fn check_overlap(&self) -> Result<(), SettingsError> {
        let (overlap, budget) = (&self.overlap, &self.budget);
        let planned = self.pipeline.plan.is_some() || budget.memory_budget.is_some();
        if overlap.overlap == Some(OverlapKind::Planned) && !planned {
            return Err(SettingsError::NothingPlanned);
        }
        if overlap.collective_link.is_some() && overlap.tp == 1 {
            return Err(SettingsError::OneRank);
        }
        if overlap.replica_link.is_some() && overlap.replicas == 1 {
            return Err(SettingsError::OneReplica);
        }
        let mut others = BudgetArgs::OTHERS.into_iter();
        match others.find(|&name| self.given.contains(name)) {
            Some(name) if budget.memory_budget.is_none() => Err(SettingsError::NoBudget {
                option: format!("--{}", name.replace('_', "-")),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SettingsError;
    use crate::cli::train_args;

    fn check(arguments: &str) -> Result<(), SettingsError> {
        train_args(arguments).expect("clap accepts it").check()
    }

    #[test]
    fn the_defaults_and_the_shortest_run_are_fine() {
        assert_eq!(check(""), Ok(()));
        assert_eq!(
            check("--steps 1 --batch 1 --micro-batches 1 --layers 1"),
            Ok(())
        );
        let within = "--tp 4 --collective-link 1GB/s,50us --overlap planned --memory-budget 1GiB";
        assert_eq!(check(&format!("{within} --strategy full")), Ok(()));
        assert_eq!(check("--tp 2 --overlap opportunistic"), Ok(()));
        assert_eq!(check("--replicas 4 --replica-link 1GB/s"), Ok(()));
    }

    #[test]
    fn contradictions_are_refused_with_the_values_in_conflict() {
        let cases = [
            ("--heads 3 --width 128", &["3 heads", "128"]),
            ("--dropout 1", &["dropout", "got 1"]),
            ("--dropout -0.5", &["dropout", "-0.5"]),
            (
                "--batch 4 --micro-batches 5",
                &["batch of 4", "5 micro-batches"],
            ),
            ("--stages 3 --layers-per-stage 2,2", &["3 stages", "for 2"]),
            ("--steps 10 --warmup 11", &["11", "10"]),
            ("--learning-rate 0", &["--learning-rate", "got 0"]),
            ("--learning-rate NaN", &["--learning-rate", "NaN"]),
            (
                "--learning-rate 1e-3 --min-learning-rate 1e-2",
                &["0.01", "0.001"],
            ),
            ("--clip -1", &["--clip", "-1"]),
            ("--temperature inf", &["--temperature", "inf"]),
            ("--heads 4 --tp 3", &["3 ranks", "4 heads"]),
            ("--replicas 3", &["4 micro-batches", "3 replicas"]),
            ("--replicas 8", &["4 micro-batches", "8 replicas"]),
            ("--replica-link 1GB/s", &["--replica-link", "--replicas"]),
            ("--overlap planned", &["--plan", "--memory-budget"]),
            ("--collective-link 1GB/s", &["--collective-link", "--tp"]),
            (
                "--strategy full",
                &["--strategy means", "without --memory-budget"],
            ),
            ("--replan-every 3", &["--replan-every means", "without"]),
            (
                "--memory-budget 1GiB --replan-above NaN",
                &["--replan-above", "NaN"],
            ),
        ];
        for (arguments, named) in cases {
            let error = check(arguments).expect_err(arguments).to_string();
            for value in named {
                assert!(error.contains(value), "{arguments}: {error}");
            }
        }
    }
}
