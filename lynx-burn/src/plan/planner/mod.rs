//! Planners: which segments are recomputed, and where, so that a stage keeps to its memory.
//!
//! A [`StageProblem`] says what one stage is asked, a [`StagePlan`] answers, and [`evaluate`]
//! defines what the answer costs. Every [`Planner`] is measured by that one function, so that an
//! [`Outcome`] of one can be held against that of another. After the idea of Lynx (arXiv
//! 2406.08756): recompute is moved into time in which the stage waits. The formulation is ours,
//! and it knows nothing of single messages and instants: the simulator does.

mod answers;
pub mod baselines;
mod choice;
mod deal_costs;
mod deal_error;
mod evaluate;
mod front;
mod heu;
pub(in crate::plan) mod layer;
mod measure;
mod milp;
mod min_max;
mod outcome;
mod pairs;
mod partition;
mod plan;
mod plan_error;
mod plan_policy;
mod prices;
mod problem;
mod replicas;
mod setup;
mod setup_error;
pub(in crate::plan) mod setup_windows;
mod skyline;
mod space;
mod stage_search;
mod stage_sum;
mod strategy;
mod sums;
mod tight;

pub use choice::{LayerGroup, ParseChoiceError, Replay, SegmentChoice, StagePlan};
pub use deal_error::DealError;
pub use evaluate::{Cost, evaluate, evaluate_without_budget};
pub use heu::Heu;
pub use milp::{Checkmate, Opt};
pub use outcome::{Change, Feasible, Infeasible, Outcome, Planner};
pub use partition::{Dealer, StageOutcome};
pub use plan::{Plan, PlannedStage, Step};
pub use plan_error::{ProblemError, Violation};
pub use plan_policy::PlanError;
pub use problem::{Ends, SegmentCost, StageProblem, Windows};
pub use replicas::Replicas;
pub use setup::Setup;
pub use setup_error::StageSetupError;
pub use strategy::{Strategy, UnknownStrategy, unlimited};
pub use tight::Tight;

#[cfg(test)]
mod brute;
#[cfg(test)]
mod heu_tests;
