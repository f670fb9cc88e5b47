//! A whole plan as a file: partition, choices of every stage, schedule, and what was predicted.
//!
//! It is made to be read, edited and run again. [`Plan::policy`] tells the runtime which segments are
//! recomputed, [`Plan::ahead`] in which waits.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::choice::StagePlan;
use super::deal_error::DealError;
use super::evaluate::{Cost, evaluate_without_budget};
use super::outcome::{Outcome, Planner};
use super::partition::Dealer;
use super::plan_error::Violation;
use super::plan_policy::PlanError;
use super::problem::StageProblem;
use super::setup::Setup;
use crate::ids::StageId;
use crate::plan::cluster::{self, FileError, JsonError};
use crate::plan::forecast::Forecast;
use crate::plan::partition::Partition;
use crate::plan::sim::Report;
use crate::units::{Bytes, Nanos};

/// Everything that was decided about one training run, and what it was decided from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Who decided.
    pub planner: String,
    /// How long that took.
    #[serde(rename = "search_ns")]
    pub search: Nanos,
    /// What the simulator says of a step.
    pub step: Step,
    /// Which segments every stage holds.
    pub partition: Partition,
    /// What every stage does.
    pub stages: Vec<PlannedStage>,
    /// Model, machines and limits.
    pub setup: Setup,
}

/// A step as predicted by the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// From the beginning until the last stage is done.
    #[serde(rename = "step_ns")]
    pub time: Nanos,
    /// The share of all stages' time in which they stand still.
    pub bubble_ratio: f64,
    /// Recompute on the stages' own time, all stages together.
    #[serde(rename = "exposed_ns")]
    pub exposed: Nanos,
    /// Recompute beside something else, all stages together.
    #[serde(rename = "hidden_ns")]
    pub hidden: Nanos,
    /// The most bytes that a stage holds at once.
    #[serde(rename = "peak_bytes")]
    pub peak: Bytes,
}

/// One stage of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Exposed recompute of a step that no plan of the planner's kind can go below, where proven.
    #[serde(rename = "bound_ns", default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Nanos>,
}

impl Step {
    /// The share of all recompute that is hidden; `None` where there is none.
    pub fn hidden_fraction(&self) -> Option<f64> {
        let (hidden, exposed) = (self.hidden.0 as f64, self.exposed.0 as f64);
        (hidden + exposed > 0.0).then(|| hidden / (hidden + exposed))
    }
}

impl From<&Report> for Step {
    fn from(report: &Report) -> Self {
        Self {
            time: report.step,
            bubble_ratio: report.bubble_ratio(),
            exposed: report.exposed(),
            hidden: report.hidden(),
            peak: report.peak().1,
        }
    }
}

impl PlannedStage {
    /// How far it may be from the best of its planner's kind, as a share of exposed time; `None`
    /// where nothing is proven.
    pub fn gap(&self, problem: &StageProblem) -> Option<f64> {
        let own = self.predicted.exposed_step(problem) as f64;
        let bound = self.bound?.0 as f64;
        Some(if own > bound {
            (own - bound) / own
        } else {
            0.0
        })
    }
}

impl Plan {
    /// The best plan: exact partition, with this planner for every stage.
    pub fn new(setup: &Setup, planner: &dyn Planner) -> Result<Self, PlanError> {
        let began = Instant::now();
        let dealer = Dealer::new(setup, planner)?;
        let layers = dealer.exact()?;
        let mut plan = Self::with_layers(setup, planner, &dealer, &layers)?;
        plan.search = elapsed(began);
        Ok(plan)
    }

    /// A plan for a deal of layers.
    pub fn with_layers(
        setup: &Setup,
        planner: &dyn Planner,
        dealer: &Dealer<'_>,
        layers: &[usize],
    ) -> Result<Self, PlanError> {
        let began = Instant::now();
        setup.validate().map_err(DealError::from)?;
        let layout = setup.profile.layout()?;
        let partition = Partition::from_layers(&layout, layers)?;
        let mut stages = Vec::new();
        for (stage, found) in dealer.stages(layers)?.into_iter().enumerate() {
            match found.outcome {
                Outcome::Feasible(feasible) => stages.push(PlannedStage {
                    plan: feasible.plan,
                    time: found.steady,
                    predicted: feasible.cost,
                    bound: feasible.bound,
                }),
                Outcome::Infeasible(short) => {
                    return Err(DealError::Infeasible {
                        layers: layers.to_vec(),
                        stage,
                        missing: short.missing,
                        nearest: short.nearest,
                    }
                    .into());
                }
                Outcome::Refused { reason } => {
                    return Err(DealError::Refused { stage, reason }.into());
                }
            }
        }
        let mut plan = Self {
            planner: planner.name().to_owned(),
            search: Nanos::ZERO,
            step: Step::default(),
            partition,
            stages,
            setup: setup.clone(),
        };
        plan.step = Step::from(&plan.forecast()?.report()?);
        plan.search = elapsed(began);
        Ok(plan)
    }

    /// The layers of every stage.
    ///
    /// # Errors
    ///
    /// If the partition is not one of the profile's model.
    pub fn layers(&self) -> Result<Vec<usize>, PlanError> {
        let layout = self.setup.profile.layout()?;
        if self.partition.segments() != layout.len() {
            return Err(PlanError::OtherChain {
                partition: self.partition.segments(),
                layout: layout.len(),
            });
        }
        let stages = (0..self.partition.stages()).map(StageId);
        let of = |stage| {
            let layers = self
                .partition
                .range(stage)
                .filter_map(|s| layout.layer_of(s));
            let mut layers: Vec<_> = layers.collect();
            layers.dedup();
            layers.len()
        };
        Ok(stages.map(of).collect())
    }

    /// The step of this plan, for the simulator.
    ///
    /// # Errors
    ///
    /// If the plan contradicts its own setup.
    pub fn forecast(&self) -> Result<Forecast, PlanError> {
        let plans: Vec<_> = self.stages.iter().map(|stage| &stage.plan).collect();
        Ok(Forecast::new(&self.setup, &self.layers()?, &plans)?)
    }

    /// What the planner of each stage was told.
    ///
    /// # Errors
    ///
    /// If the plan contradicts its own setup.
    pub fn problems(&self) -> Result<Vec<StageProblem>, PlanError> {
        problems(&self.setup, &self.layers()?)
    }

    /// The most that boundaries and tapes of each stage occupy: its peak, if it had no weights and
    /// needed nothing for a moment.
    ///
    /// # Errors
    ///
    /// If the plan contradicts its own setup.
    pub fn activations(&self) -> Result<Vec<Bytes>, PlanError> {
        let stages = self.stages.iter().zip(self.problems()?);
        let peaks = stages.map(|(stage, mut problem)| {
            problem.fixed = Bytes(0);
            problem.before.workspace = Bytes(0);
            problem.after.workspace = Bytes(0);
            for segment in &mut problem.segments {
                segment.workspace = Bytes(0);
            }
            let cost = evaluate_without_budget(&problem, &stage.plan);
            let refused = |broken: Violation| DealError::Refused {
                stage: problem.stage,
                reason: broken.to_string(),
            };
            Ok(cost.map_err(refused)?.peak)
        });
        peaks.collect()
    }

    /// Refuses a plan that contradicts itself.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.setup.validate().map_err(DealError::from)?;
        let (planned, stages) = (self.stages.len(), self.partition.stages());
        if planned != stages || stages != self.setup.stages {
            return Err(PlanError::StageCount { planned, stages });
        }
        let budget = self.setup.budget;
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

fn problems(setup: &Setup, layers: &[usize]) -> Result<Vec<StageProblem>, PlanError> {
    let mut start = 0_usize;
    let mut all = Vec::with_capacity(layers.len());
    for (stage, &count) in layers.iter().enumerate() {
        let end = start.saturating_add(count);
        let problem = setup.problem(stage, start..end);
        all.push(problem.map_err(DealError::from)?);
        start = end;
    }
    Ok(all)
}

/// The time since then.
pub(super) fn elapsed(began: Instant) -> Nanos {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Nanos(nanos(began.elapsed()))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile_tests;
