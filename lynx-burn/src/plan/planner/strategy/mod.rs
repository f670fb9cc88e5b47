//! Ways to plan a whole model, by name: a planner with the deal of layers that goes with it.
//!
//! A [`Planner`] answers for one stage. What others do is more than that: Megatron-LM deals layers
//! evenly, AdaPipe deals them with recompute in the balance, and only a planner that knows windows
//! gains from forwards that run ahead. A [`Strategy`] says it all, so that plans of different
//! origin can be compared by their simulated step. It is the simulator that decides between deals
//! and between depths, because only it knows where a pipeline really waits.

mod depth;
mod known;

use std::time::Instant;

use super::outcome::{Outcome, Planner};
use super::partition::Dealer;
use super::plan::{Plan, Step, elapsed};
use super::plan_policy::PlanError;
use super::setup::Setup;
use super::{DealError, evaluate};
use depth::{depths, is_enough};

pub use depth::unlimited;
pub use known::UnknownStrategy;

/// How layers are dealt to stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deal {
    /// As many for each stage.
    Even,
    /// The slowest stage as fast as can be, recompute included; evenly, if that turns out faster.
    Balanced,
}

/// A way to plan.
pub struct Strategy {
    name: &'static str,
    about: &'static str,
    planner: Box<dyn Planner>,
    deal: Deal,
    /// Asked as well for stages on which the planner leaves recompute exposed.
    second: Option<Box<dyn Planner>>,
    /// Whether what the second proves holds for the first too.
    proves: bool,
    /// Whether forwards may run ahead where that pays.
    deepens: bool,
    /// What else is tried where recompute stays exposed or nothing fits, each with a deal of its
    /// own: nothing that overlaps should be slower than what does not.
    rivals: Vec<Self>,
}

impl Strategy {
    /// The same with or without forwards that run ahead where that pays.
    #[must_use]
    pub fn deepening(self, deepens: bool) -> Self {
        Self { deepens, ..self }
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it does, in half a line.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// The best plan of this kind.
    ///
    /// # Errors
    ///
    /// If there is none within the budget, or the setup makes no sense.
    pub fn plan(&self, setup: &Setup) -> Result<Plan, PlanError> {
        let began = Instant::now();
        let mut best = self.dealt(setup);
        // Where nothing can be gained, nothing else is tried.
        let tries = self.deepens || !self.rivals.is_empty();
        let enough = match &best {
            Ok(best) if tries => is_enough(best, unlimited(setup)?.step.time),
            _ => !tries,
        };
        if !enough {
            best = best.and_then(|plan| self.perhaps_deeper(plan, self.deepens));
        }
        if let (Ok(best), Some(second)) = (&mut best, &self.second) {
            self.improve(best, second.as_ref())?;
        }
        let rivals = if enough { &[] } else { &self.rivals[..] };
        for rival in rivals {
            let other = rival.dealt(setup);
            let other = other.and_then(|plan| rival.perhaps_deeper(plan, self.deepens));
            best = faster(best, other);
        }
        Ok(self.signed(best?, began))
    }

    /// The best plan of this kind for a deal of layers that stays, as a run at work needs it that
    /// is planned again: forwards run ahead as far as the setup says, and no further.
    ///
    /// # Errors
    ///
    /// If there is none within the budget, or the setup makes no sense.
    pub fn plan_dealt(&self, setup: &Setup, layers: &[usize]) -> Result<Plan, PlanError> {
        let began = Instant::now();
        let of = |strategy: &Self| {
            let planner = strategy.planner.as_ref();
            let dealer = Dealer::new(setup, planner)?;
            Plan::with_layers(setup, planner, &dealer, layers)
        };
        let mut best = of(self);
        if let (Ok(best), Some(second)) = (&mut best, &self.second) {
            self.improve(best, second.as_ref())?;
        }
        let best = self.rivals.iter().map(of).fold(best, faster);
        Ok(self.signed(best?, began))
    }

    fn signed(&self, mut plan: Plan, began: Instant) -> Plan {
        self.name.clone_into(&mut plan.planner);
        plan.search = elapsed(began);
        plan
    }

    fn perhaps_deeper(&self, plan: Plan, deepens: bool) -> Result<Plan, PlanError> {
        if deepens {
            self.deepest(plan)
        } else {
            Ok(plan)
        }
    }

    /// The best of this plan and those with forwards that run ahead.
    fn deepest(&self, shallow: Plan) -> Result<Plan, PlanError> {
        let layers = shallow.layers()?;
        let mut best = shallow;
        for extra_in_flight in depths(best.setup.stages) {
            let deeper = Setup {
                extra_in_flight,
                ..best.setup.clone()
            };
            let planner = self.planner.as_ref();
            let dealer = Dealer::new(&deeper, planner)?;
            // With the same deal; where that does not fit, with its own. If there is none, more in
            // flight does not fit at all.
            let plan = Plan::with_layers(&deeper, planner, &dealer, &layers);
            let plan = plan.or_else(|_| self.dealt(&deeper));
            if let Ok(plan) = plan
                && plan.step.time < best.step.time
            {
                best = plan;
            }
        }
        if best.setup.extra_in_flight.is_empty() {
            return Ok(best);
        }
        let dealt = self.dealt(&best.setup)?;
        Ok(if dealt.step.time < best.step.time {
            dealt
        } else {
            best
        })
    }

    fn dealt(&self, setup: &Setup) -> Result<Plan, PlanError> {
        let planner = self.planner.as_ref();
        let dealer = Dealer::new(setup, planner)?;
        let even = Plan::with_layers(setup, planner, &dealer, &dealer.even());
        if self.deal == Deal::Even {
            return even;
        }
        let layers = dealer.exact()?;
        let balanced = Plan::with_layers(setup, planner, &dealer, &layers)?;
        Ok(match even {
            Ok(even) if even.step.time < balanced.step.time => even,
            _ => balanced,
        })
    }

    /// Takes a second planner's answers where they are better.
    fn improve(&self, plan: &mut Plan, second: &dyn Planner) -> Result<(), PlanError> {
        let problems = plan.problems()?;
        let mut improved = plan.clone();
        for (problem, stage) in problems.iter().zip(&mut improved.stages) {
            if stage.predicted.exposed_step(problem) == 0 {
                continue;
            }
            let Outcome::Feasible(found) = second.plan(problem) else {
                continue;
            };
            if self.proves {
                stage.bound = found.bound;
            }
            // Without windows a plan costs the same, whoever has made it.
            let cost = evaluate(problem, &found.plan).map_err(|broken| DealError::Refused {
                stage: problem.stage,
                reason: broken.to_string(),
            })?;
            if cost.rank(problem) < stage.predicted.rank(problem) {
                stage.bound = stage.bound.filter(|_| self.proves);
                stage.time = cost.micro_batch(problem);
                stage.plan = found.plan;
                stage.predicted = cost;
            }
        }
        improved.step = Step::from(&improved.forecast()?.report()?);
        if improved.step.time <= plan.step.time {
            *plan = improved;
        }
        Ok(())
    }
}

/// The faster one of two plans, the first where they are alike, or the only one there is.
fn faster(own: Result<Plan, PlanError>, other: Result<Plan, PlanError>) -> Result<Plan, PlanError> {
    match (own, other) {
        (Ok(own), Ok(other)) if other.step.time >= own.step.time => Ok(own),
        (Err(error), Err(_)) => Err(error),
        (own, Err(_)) => own,
        (_, other) => other,
    }
}

#[cfg(test)]
mod tests;
