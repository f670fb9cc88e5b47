//! What a plan's step looks like: choices turned into the costs of a schedule, for the simulator.
//!
//! A planner's own arithmetic ([`planner::evaluate`](super::planner::evaluate())) knows sums and
//! worst cases; the simulator knows instants and messages. A [`Forecast`] carries one over into
//! the other, part by part, so that both speak of the same segments, windows and bytes. Its report
//! is what plans are compared by, and never holds more than `evaluate` says.

mod bytes;
mod links;
mod passes;

use super::planner::{Replicas, Setup, StagePlan, StageSetupError};
use super::schedule::{Schedule, ScheduleError, deepen, reduce_gradients, transfers};
use super::sim::{self, Costs, Report, SimError, Timeline};

/// A schedule with the costs of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Every stage's actions.
    pub schedule: Schedule,
    /// What they cost.
    pub costs: Costs,
}

/// A plan whose step cannot be told.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ForecastError {
    /// Not all stages are planned.
    #[error("{planned} stages are planned and {dealt} have layers, but there are {stages}")]
    StageCount {
        /// The stages with a plan.
        planned: usize,
        /// The stages that have layers.
        dealt: usize,
        /// The stages there are.
        stages: usize,
    },
    /// A stage is planned for other layers.
    #[error("stage {stage} holds {layers} layers, but {planned} are planned")]
    LayerCount {
        /// The stage.
        stage: usize,
        /// The layers it holds.
        layers: usize,
        /// The layers that are planned.
        planned: usize,
    },
    /// A stage's choices are for a layer of other segments.
    #[error("a layer on stage {stage} has {segments} segments, but {planned} choices")]
    SegmentCount {
        /// The stage.
        stage: usize,
        /// The segments of its layers.
        segments: usize,
        /// The choices.
        planned: usize,
    },
    /// A schedule that no memory could hold.
    #[error(
        "{micro_batches} micro-batches on {stages} stages are too many: at most {} passes \
         can be simulated",
        Forecast::MOST_PASSES
    )]
    TooLong {
        /// The micro-batches.
        micro_batches: u64,
        /// The stages.
        stages: usize,
    },
    /// A stage that cannot be described.
    #[error(transparent)]
    Setup(#[from] StageSetupError),
    /// No schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A step that cannot be timed.
    #[error(transparent)]
    Sim(#[from] SimError),
}

impl Forecast {
    /// The most forwards of a step, of all stages together: a schedule holds some hundred bytes
    /// for each.
    pub const MOST_PASSES: u64 = 1 << 24;

    /// The step of these plans, one for each stage, with so many layers on each.
    pub fn new(
        setup: &Setup,
        layers: &[usize],
        plans: &[&StagePlan],
    ) -> Result<Self, ForecastError> {
        let (planned, dealt, stages) = (plans.len(), layers.len(), setup.stages);
        if planned != stages || dealt != stages {
            return Err(ForecastError::StageCount {
                planned,
                dealt,
                stages,
            });
        }
        let mut start = 0_usize;
        let mut all = Vec::with_capacity(stages);
        for (stage, (&count, plan)) in layers.iter().zip(plans).enumerate() {
            let end = start.saturating_add(count);
            all.push(passes::stage(setup, stage, start..end, plan)?);
            start = end;
        }
        let schedule = schedule(setup)?;
        let mut costs = Costs::with_free_links(all);
        costs.links = links::links(setup, layers);
        // What is sent is out of the way: a send never waits for its receiver.
        costs.mailbox_capacity = schedule.micro_batches;
        costs.blocking_sends = setup.blocking_sends;
        costs.contention = setup.cluster.contention;
        Ok(Self { schedule, costs })
    }

    /// The figures of the step.
    pub fn report(&self) -> Result<Report, SimError> {
        sim::simulate(&self.schedule, &self.costs)
    }

    /// The figures with everything that happens.
    pub fn record(&self) -> Result<(Report, Timeline), SimError> {
        sim::record(&self.schedule, &self.costs)
    }
}

/// The schedule of a setup, with transfers and, of several replicas, reductions.
fn schedule(setup: &Setup) -> Result<Schedule, ForecastError> {
    let (stages, micro_batches) = (setup.stages, setup.micro_batches);
    let passes = micro_batches.checked_mul(stages as u64);
    let fits = passes.is_some_and(|passes| passes <= Forecast::MOST_PASSES);
    let count = usize::try_from(micro_batches).ok().filter(|_| fits);
    let count = count.ok_or(ForecastError::TooLong {
        micro_batches,
        stages,
    })?;
    let compute = setup.schedule.generate(stages, count)?;
    let deeper = deepen(&compute, &setup.extra_in_flight);
    let complete = transfers::eager(&deeper);
    Ok(match setup.replicas {
        Some(Replicas { count: 2.., .. }) => reduce_gradients(&complete),
        _ => complete,
    })
}

#[cfg(test)]
mod tests;
