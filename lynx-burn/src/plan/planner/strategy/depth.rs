//! How far forwards may run ahead, and the yardstick of unlimited memory.

use std::time::Instant;

use super::{Deal, Strategy};
use crate::plan::planner::baselines::RetainAll;
use crate::plan::planner::plan::{Plan, elapsed};
use crate::plan::planner::plan_policy::PlanError;
use crate::plan::planner::setup::Setup;
use crate::units::{Bytes, Nanos};

/// Whether a plan comes within a two-thousandth of the step with unlimited memory.
pub(super) fn is_enough(plan: &Plan, bound: Nanos) -> bool {
    plan.step.time.0 <= bound.0.saturating_add(bound.0 / 2000)
}

/// The step with unlimited memory: everything is retained, in the best of the deals and depths that
/// strategies try. A yardstick and not a proof: another deal might be faster still. The budget in it
/// is no one's.
///
/// # Errors
///
/// If the setup makes no sense.
pub fn unlimited(setup: &Setup) -> Result<Plan, PlanError> {
    let setup = Setup {
        budget: Bytes(1 << 60),
        ..setup.clone()
    };
    let all = Strategy {
        name: "unlimited memory",
        about: "nothing is recomputed, whatever the bytes",
        planner: Box::new(RetainAll),
        deal: Deal::Balanced,
        second: None,
        proves: false,
        deepens: false,
        rivals: Vec::new(),
    };
    let began = Instant::now();
    let mut best = all.dealt(&setup).and_then(|plan| all.deepest(plan))?;
    all.name.clone_into(&mut best.planner);
    best.search = elapsed(began);
    Ok(best)
}

/// How far forwards may run ahead on each stage: by one; as far as fills the forward bubbles of
/// early stages; both.
///
/// Not on a stage that is alone or last. There one micro-batch is in flight, and a delayed backward
/// would only give it forward windows: what they make anew is there beside what the other
/// micro-batch holds of it, and that is more than retaining it with one in flight.
pub(super) fn depths(stages: usize) -> Vec<Vec<usize>> {
    let behind = |stage: usize| stages - 1 - stage;
    let mut all: Vec<Vec<usize>> = vec![
        (0..stages).map(|stage| behind(stage).min(1)).collect(),
        (0..stages).map(behind).collect(),
        (0..stages)
            .map(|stage| behind(stage) + behind(stage).min(1))
            .collect(),
    ];
    all.retain(|extra| extra.iter().any(|&more| more > 0));
    all.dedup();
    all
}
