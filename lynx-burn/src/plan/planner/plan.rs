//! A whole plan as a file: partition, choices of every stage, schedule, and what was predicted.
//!
//! It is made to be read, edited and run again. Running it on demand needs less than it holds:
//! [`Plan::policy`] tells the runtime which segments are recomputed; where each is hidden is for
//! an executor that knows windows.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::choice::StagePlan;
use super::deal_error::DealError;
use super::evaluate::Cost;
use super::outcome::{Outcome, Planner};
use super::partition::Dealer;
use super::plan_policy::PlanError;
use super::setup::Setup;
use crate::ids::StageId;
use crate::plan::cluster::{self, FileError, JsonError};
use crate::plan::partition::Partition;
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
