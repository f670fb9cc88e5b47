//! What every planner answers, in one form, so that answers can be compared.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::choice::{SegmentChoice, StagePlan};
use super::evaluate::{Cost, evaluate, evaluate_without_budget};
use super::plan_error::Violation;
use super::problem::StageProblem;
use crate::units::{Bytes, Nanos};

/// Something that decides about one stage. Several threads may ask it at once.
pub trait Planner: Sync {
    /// What it is called in tables.
    fn name(&self) -> &str;

    /// A plan that keeps to the budget, or by how much none does.
    fn plan(&self, problem: &StageProblem) -> Outcome;

    /// Whether a stage for which it finds no plan within the budget has none with more layers
    /// either. Saves a partition's searches; `false` is never wrong.
    fn needs_more_for_more_layers(&self) -> bool {
        false
    }
}

/// A planner's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A plan within the budget.
    Feasible(Feasible),
    /// The planner has no plan within the budget.
    Infeasible(Infeasible),
    /// The problem is none, or the planner broke a rule.
    Refused {
        /// Why.
        reason: String,
    },
}

/// A plan within the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feasible {
    /// What to do.
    pub plan: StagePlan,
    /// What it costs.
    pub cost: Cost,
    /// Exposed recompute of a step that no plan of the planner's kind can go below, where that is
    /// proven; equal to the plan's own where the plan is optimal.
    pub bound: Option<Nanos>,
    /// How long the search took.
    pub search: Duration,
}

/// No plan within the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Infeasible {
    /// How many bytes are missing for the thriftiest plan.
    pub missing: Bytes,
    /// The thriftiest plan that was found.
    pub thriftiest: StagePlan,
    /// What would make it fit.
    pub nearest: Change,
    /// How long the search took.
    pub search: Duration,
}

/// The smallest change after which the thriftiest plan would fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Hold at most so many micro-batches in flight.
    InFlight(u64),
    /// Hold at most so many layers on this stage: more stages, or another partition.
    Layers(usize),
    /// Neither is enough: smaller micro-batches, more tensor-parallel ranks, or more memory.
    Smaller,
}

impl Outcome {
    /// The plan, if there is one.
    pub fn feasible(&self) -> Option<&Feasible> {
        match self {
            Self::Feasible(found) => Some(found),
            Self::Infeasible(_) | Self::Refused { .. } => None,
        }
    }

    /// The answer that a plan amounts to: it is evaluated here, so that no planner can claim a
    /// cost of its own. An `optimal` plan is its own bound.
    pub fn of(problem: &StageProblem, plan: StagePlan, optimal: bool, began: Instant) -> Self {
        match evaluate(problem, &plan) {
            Ok(cost) => {
                let own = u64::try_from(cost.exposed_step(problem)).unwrap_or(u64::MAX);
                Self::Feasible(Feasible {
                    plan,
                    cost,
                    bound: optimal.then_some(Nanos(own)),
                    search: began.elapsed(),
                })
            }
            Err(Violation::OverBudget { peak, budget }) => Self::Infeasible(Infeasible {
                missing: Bytes(peak.0.saturating_sub(budget.0)),
                nearest: nearest(problem, &plan),
                thriftiest: plan,
                search: began.elapsed(),
            }),
            Err(other) => Self::Refused {
                reason: other.to_string(),
            },
        }
    }
}

impl Feasible {
    /// How far the plan may be from the best, as a share of its exposed time; `None` where nothing
    /// is proven.
    pub fn gap(&self, problem: &StageProblem) -> Option<f64> {
        let own = self.cost.exposed_step(problem) as f64;
        let bound = self.bound?.0 as f64;
        Some(if own > bound {
            (own - bound) / own
        } else {
            0.0
        })
    }
}

/// Searched with the thriftiest plan's choices: fewer in flight first, then fewer layers.
fn nearest(problem: &StageProblem, plan: &StagePlan) -> Change {
    let fits = |problem: &StageProblem, plan: &StagePlan| {
        evaluate_without_budget(problem, plan).is_ok_and(|cost| cost.peak <= problem.budget)
    };
    let in_flight = |in_flight: u64| StageProblem {
        in_flight,
        ..problem.clone()
    };
    if fits(&in_flight(1), plan) {
        // Less in flight never needs more: the most that fits is found by halving.
        let (mut fit, mut too_many) = (1, problem.in_flight);
        while too_many - fit > 1 {
            let middle = fit + (too_many - fit) / 2;
            if fits(&in_flight(middle), plan) {
                fit = middle;
            } else {
                too_many = middle;
            }
        }
        return Change::InFlight(fit);
    }
    let choices: Vec<SegmentChoice> = match plan.groups.first() {
        Some(group) => group.choices.clone(),
        None => return Change::Smaller,
    };
    let shorter = |layers: usize| {
        let mut problem = problem.clone();
        let share =
            |fixed: u64| (u128::from(fixed) * layers as u128 / problem.layers as u128) as u64;
        problem.fixed = Bytes(share(problem.fixed.0));
        problem.layers = layers;
        let plan = StagePlan::uniform(layers, choices.clone());
        fits(&problem, &plan)
    };
    if problem.layers < 2 || !shorter(1) {
        return Change::Smaller;
    }
    let (mut fit, mut too_many) = (1, problem.layers);
    while too_many - fit > 1 {
        let middle = fit + (too_many - fit) / 2;
        if shorter(middle) {
            fit = middle;
        } else {
            too_many = middle;
        }
    }
    Change::Layers(fit)
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InFlight(most) => write!(f, "hold at most {most} micro-batches in flight"),
            Self::Layers(most) => write!(f, "give the stage at most {most} layers (more stages)"),
            Self::Smaller => f.write_str(
                "make the micro-batch smaller, use more tensor-parallel ranks, or raise the budget",
            ),
        }
    }
}
