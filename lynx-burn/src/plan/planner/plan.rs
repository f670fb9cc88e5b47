//! A whole plan as a file: partition, choices of every stage, schedule, and what was predicted.
//!
//! It is made to be read, edited and run again. Running it on demand needs less than it holds:
//! [`Plan::policy`] tells the runtime which segments are recomputed; where each is hidden is for
//! an executor that knows windows.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::choice::{Replay, StagePlan};
use super::evaluate::Cost;
use super::outcome::{Outcome, Planner};
use super::partition::{DealError, Dealer};
use super::setup::Setup;
use crate::ids::StageId;
use crate::plan::cluster::{self, FileError, JsonError};
use crate::plan::layout::{ChainLayout, LayoutError};
use crate::plan::partition::{Partition, PartitionError};
use crate::plan::policy::{Choice, Policy};
use crate::plan::schedule::Kind;
use crate::units::{Bytes, Nanos};

/// Everything that was decided about one training run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The model, by name.
    pub model: String,
    /// The machines, by name.
    pub cluster: String,
    /// Who decided.
    pub planner: String,
    /// Ranks that share every stage.
    pub tensor_parallel: usize,
    /// The order of work.
    pub schedule: Kind,
    /// Micro-batches of a step.
    pub micro_batches: u64,
    /// What a device may hold.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
    /// A step, as predicted without a simulator.
    #[serde(rename = "step_ns")]
    pub step: Nanos,
    /// Which segments every stage holds.
    pub partition: Partition,
    /// What every stage does.
    pub stages: Vec<PlannedStage>,
}

/// One stage of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedStage {
    /// Its layers, in groups.
    #[serde(flatten)]
    pub plan: StagePlan,
    /// Forward, backward and exposed recompute of a micro-batch.
    #[serde(rename = "micro_batch_ns")]
    pub time: Nanos,
    /// What its recompute costs, and its bytes.
    pub predicted: Cost,
}

/// A plan that does not fit itself or a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No deal.
    #[error(transparent)]
    Deal(#[from] DealError),
    /// No chain.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No partition.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// As many stages must be planned as there are.
    #[error("{planned} stages are planned, but the partition has {stages}")]
    StageCount {
        /// The stages that are planned.
        planned: usize,
        /// The stages of the partition.
        stages: usize,
    },
    /// A partition of another chain.
    #[error("the partition is of a chain of {partition} segments, but this one has {layout}")]
    OtherChain {
        /// The segments of the partition.
        partition: usize,
        /// The segments of the chain.
        layout: usize,
    },
    /// Choices must be there for the layers of the stage.
    #[error("{stage} holds {layers} layers, but {planned} are planned")]
    LayerCount {
        /// The stage.
        stage: StageId,
        /// The layers it holds.
        layers: usize,
        /// The layers that are planned.
        planned: usize,
    },
    /// Choices must be there for every segment of a layer.
    #[error("layer {layer} on {stage} has {segments} segments, but {planned} choices")]
    SegmentCount {
        /// The stage.
        stage: StageId,
        /// The layer.
        layer: usize,
        /// Its segments.
        segments: usize,
        /// The choices.
        planned: usize,
    },
    /// A stage over its budget.
    #[error("{stage} holds {peak}, more than the budget of {budget}")]
    OverBudget {
        /// The stage.
        stage: StageId,
        /// What it holds.
        peak: Bytes,
        /// What it may hold.
        budget: Bytes,
    },
}

impl Plan {
    /// The best plan: exact partition, with this planner for every stage.
    pub fn new(setup: &Setup<'_>, planner: &dyn Planner) -> Result<Self, PlanError> {
        let dealer = Dealer::new(setup, planner)?;
        let layers = dealer.exact()?;
        Self::with_layers(setup, planner, &dealer, &layers)
    }

    /// A plan for a deal of layers.
    pub fn with_layers(
        setup: &Setup<'_>,
        planner: &dyn Planner,
        dealer: &Dealer<'_>,
        layers: &[usize],
    ) -> Result<Self, PlanError> {
        let layout = setup.profile.layout()?;
        let partition = Partition::from_layers(&layout, layers)?;
        let step = dealer.step(layers)?;
        let mut stages = Vec::new();
        for (stage, found) in dealer.stages(layers)?.into_iter().enumerate() {
            let reason = match found.outcome {
                Outcome::Feasible(feasible) => {
                    stages.push(PlannedStage {
                        plan: feasible.plan,
                        time: found.steady,
                        predicted: feasible.cost,
                    });
                    continue;
                }
                Outcome::Infeasible(short) => format!("{} short", short.missing),
                Outcome::Refused { reason } => reason,
            };
            return Err(DealError::Refused { stage, reason }.into());
        }
        Ok(Self {
            model: setup.profile.name.clone(),
            cluster: setup.cluster.name.clone(),
            planner: planner.name().to_owned(),
            tensor_parallel: setup.profile.tensor_parallel,
            schedule: setup.schedule,
            micro_batches: setup.micro_batches,
            budget: setup.budget,
            step,
            partition,
            stages,
        })
    }

    /// Refuses a plan that contradicts itself.
    pub fn validate(&self) -> Result<(), PlanError> {
        let (planned, stages) = (self.stages.len(), self.partition.stages());
        if planned != stages {
            return Err(PlanError::StageCount { planned, stages });
        }
        let budget = self.budget;
        let mut all = self.stages.iter().enumerate();
        match all.find(|(_, stage)| stage.predicted.peak > budget) {
            None => Ok(()),
            Some((index, stage)) => Err(PlanError::OverBudget {
                stage: StageId(index),
                peak: stage.predicted.peak,
                budget,
            }),
        }
    }

    /// What the runtime recomputes. Segments outside layers are retained.
    ///
    /// Stages that replay all their layers so many at once are said so, if all do alike; where
    /// they differ, every layer is a group of its own.
    pub fn policy(&self, layout: &ChainLayout) -> Result<Policy, PlanError> {
        self.validate()?;
        if self.partition.segments() != layout.len() {
            return Err(PlanError::OtherChain {
                partition: self.partition.segments(),
                layout: layout.len(),
            });
        }
        let stages = self.stages.iter().enumerate();
        let stages = stages.map(|(index, stage)| self.choices(layout, StageId(index), &stage.plan));
        let by_hand = stages.collect::<Result<_, _>>()?;
        let outside = (0..layout.len()).any(|segment| layout.layer_of(segment).is_none());
        match self.together() {
            Some(count) if !outside => Ok(Policy::Uniform(count)),
            _ => Ok(Policy::ByHand(by_hand)),
        }
    }

    /// How many layers all stages replay at once.
    fn together(&self) -> Option<std::num::NonZeroUsize> {
        let mut counts = self.stages.iter().map(|stage| match stage.plan.groups[..] {
            [ref group] => match group.replay {
                Replay::Layers(count) => Some(count),
                Replay::Segments => None,
            },
            _ => None,
        });
        let first = counts.next()??;
        let alike = counts.all(|count| count == Some(first));
        alike.then(|| std::num::NonZeroUsize::new(first))?
    }

    fn choices(
        &self,
        layout: &ChainLayout,
        stage: StageId,
        plan: &StagePlan,
    ) -> Result<Vec<Choice>, PlanError> {
        let range = self.partition.range(stage);
        let mut layers: Vec<usize> = range.clone().filter_map(|s| layout.layer_of(s)).collect();
        layers.dedup();
        let planned = plan.layers();
        if planned != layers.len() {
            return Err(PlanError::LayerCount {
                stage,
                layers: layers.len(),
                planned,
            });
        }
        let mut choices = vec![Choice::Retain; range.len()];
        for (&layer, group) in layers.iter().zip(plan.by_layer()) {
            let members = layout.layer_range(layer);
            let within = members.start >= range.start && members.end <= range.end;
            if !within || members.len() != group.choices.len() {
                return Err(PlanError::SegmentCount {
                    stage,
                    layer,
                    segments: members.len(),
                    planned: group.choices.len(),
                });
            }
            for (segment, choice) in members.zip(&group.choices) {
                if choice.is_recomputed() {
                    choices[segment - range.start] = Choice::Recompute;
                }
            }
        }
        Ok(choices)
    }

    /// Reads a plan from JSON. Refuses one that contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, JsonError<PlanError>> {
        cluster::from_text(text, Self::validate)
    }

    /// The plan in JSON.
    pub fn to_json(&self) -> Result<String, JsonError<PlanError>> {
        cluster::to_text(self, Self::validate)
    }

    /// Reads a file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileError<PlanError>> {
        cluster::read(path.as_ref(), Self::from_json)
    }

    /// Writes a file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), FileError<PlanError>> {
        cluster::write(path.as_ref(), self.to_json())
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
