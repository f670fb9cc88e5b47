//! What is known while a solver searches: the best plan so far and what is proven.

use std::time::{Duration, Instant};

use super::super::choice::StagePlan;
use super::super::evaluate::{evaluate, evaluate_without_budget};
use super::super::heu::Heu;
use super::super::outcome::{Outcome, Planner};
use super::super::problem::StageProblem;
use super::solver::Answer;
use super::stage::Stage;
use crate::units::Nanos;

/// Taken from rows of bytes, which are a thousandth of the budget, when a plan came out a few
/// bytes over it.
pub(super) const TIGHTER: f64 = 1e-5;

/// A search for the best plan of one stage.
pub(super) struct Search<'a> {
    problem: &'a StageProblem,
    began: Instant,
    limit: Duration,
    /// The best plan and its exposed time.
    best: Option<(StagePlan, u64)>,
    thriftiest: Option<StagePlan>,
    bound: u64,
}

impl<'a> Search<'a> {
    /// Begins with HEU's plan; an error if there is no problem to solve.
    pub(super) fn new(problem: &'a StageProblem, limit: Duration) -> Result<Self, Outcome> {
        let began = Instant::now();
        let mut search = Self {
            problem,
            began,
            limit,
            best: None,
            thriftiest: None,
            bound: 0,
        };
        match Heu::default().plan(problem) {
            Outcome::Feasible(found) => {
                search.offer(found.plan);
            }
            Outcome::Infeasible(none) => search.thriftiest = Some(none.thriftiest),
            refused @ Outcome::Refused { .. } => return Err(refused),
        }
        Ok(search)
    }

    /// What is left of the time.
    pub(super) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.began.elapsed())
    }

    /// When the time is up, if ever.
    pub(super) fn until(&self) -> Option<Instant> {
        self.began.checked_add(self.limit)
    }

    /// All of the time.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// The best plan so far.
    pub(super) fn best(&self) -> Option<&StagePlan> {
        self.best.as_ref().map(|(plan, _)| plan)
    }

    /// Exposed time that need not be exceeded.
    pub(super) fn most(&self) -> u64 {
        self.best.as_ref().map_or(u64::MAX, |(_, exposed)| *exposed)
    }

    /// Whether no better plan can exist, as far as a solver's digits can tell.
    pub(super) fn is_done(&self) -> bool {
        let most = self.most();
        most.saturating_sub(self.bound) <= most / 10_000_000 && self.best.is_some()
    }

    /// Takes a plan if it is better; whether it keeps all rules.
    pub(super) fn offer(&mut self, plan: StagePlan) -> bool {
        let Ok(cost) = evaluate(self.problem, &plan) else {
            return false;
        };
        let exposed = u64::try_from(cost.exposed_step(self.problem)).unwrap_or(u64::MAX);
        if exposed < self.most() {
            self.best = Some((plan, exposed));
        }
        true
    }

    /// Takes what a program proves that no plan costs less than.
    pub(super) fn prove(&mut self, stage: &Stage<'_>, answer: &Answer) {
        let (Answer::Values { bound, .. } | Answer::Nothing { bound }) = answer else {
            return;
        };
        if let Some(bound) = bound {
            self.bound = self.bound.max(stage.exposed(*bound));
        }
    }

    /// Takes a plan that holds few bytes.
    pub(super) fn offer_thrifty(&mut self, plan: StagePlan) {
        self.offer(plan.clone());
        let peak = |plan: &StagePlan| {
            let cost = evaluate_without_budget(self.problem, plan);
            cost.map(|cost| cost.peak).ok()
        };
        let Some(own) = peak(&plan) else { return };
        let known = self.thriftiest.as_ref().and_then(peak);
        if known.is_none_or(|known| own < known) {
            self.thriftiest = Some(plan);
        }
    }

    /// The answer.
    pub(super) fn outcome(self) -> Outcome {
        let done = self.is_done();
        let plan = match (self.best, self.thriftiest) {
            (Some((plan, _)), _) | (None, Some(plan)) => plan,
            (None, None) => {
                return Outcome::Refused {
                    reason: format!("no plan was found within {:?}", self.limit),
                };
            }
        };
        let mut outcome = Outcome::of(self.problem, plan, done, self.began);
        if let Outcome::Feasible(found) = &mut outcome {
            found.bound.get_or_insert(Nanos(self.bound));
        }
        outcome
    }
}
