//! A planned run, step by step.

use lynx_burn::measure::Measured;
use lynx_burn::plan::planner::{Plan, PlanError, Setup, Strategy};
use lynx_burn::{BackwardReport, Overlap, Trainer};

use super::drift::Drift;
use super::figures::Figures;
use super::outcome::Outcome;
use super::reasons::Circumstances;
use crate::cli::TrainArgs;
use crate::error::RunError;
use crate::model::Gpt;
use crate::orders::layout;
use crate::plan::{PlanningError, Subject};
use crate::table::duration;

/// Steps after a plan, or after an evaluation, that are not counted: caches fill, and the runtime
/// learns how large things are.
const WARM_UP: usize = 2;

/// Sees every step of a planned run.
pub(crate) struct Watch {
    subject: Subject,
    strategy: Strategy,
    overlap: Overlap,
    circumstances: Circumstances,
    /// What the plan in force was made from.
    measured: Measured,
    /// The plan in force.
    plan: Plan,
    drift: Drift,
    /// The next steps that are not counted.
    skip: usize,
    /// Those that were, since the plan in force.
    steps: Vec<Figures>,
}

impl Watch {
    /// Of a run with these options, whose decisions are the plan's.
    pub(super) fn new(
        args: &TrainArgs,
        subject: Subject,
        strategy: Strategy,
        (measured, plan): (Measured, Plan),
        overlap: Overlap,
    ) -> Self {
        Self {
            circumstances: Circumstances::of(args, &subject, &plan),
            subject,
            strategy,
            overlap,
            measured,
            plan,
            drift: Drift::new(args.budget.replan_above, args.budget.replan_every),
            skip: WARM_UP,
            steps: Vec::new(),
        }
    }

    /// The plan in force.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What comes next is not counted.
    pub(crate) fn pause(&mut self) {
        self.skip = self.skip.max(1);
    }

    /// A step was taken. If steps have drifted too far from the plan, says how far, as a share of
    /// what was predicted.
    pub(crate) fn step(&mut self, report: &BackwardReport) -> Option<f64> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.steps.push(Figures::measured(report));
        self.drift.look(report.time, self.plan.step.time)
    }

    /// Measures and plans again, has the trainer obey, and says what came of it. Where there is no
    /// plan now, that of before stays.
    ///
    /// # Errors
    ///
    /// If the trainer is over, or does not take the plan.
    pub(crate) fn replan(
        &mut self,
        trainer: &mut Trainer<Gpt>,
        ratio: f64,
    ) -> Result<String, RunError> {
        let (step, before) = (trainer.steps(), self.plan.step.time);
        let why = format!(
            "step {step:>5}  steps take {ratio:.2} x the planned {}",
            duration(before)
        );
        let (measured, plan) = match self.plan_again() {
            Ok(found) => found,
            Err(error) => {
                self.drift.planned(false);
                return Ok(format!("{why}; the plan stays: {error}"));
            }
        };
        let layout = layout(self.subject.config.layers).map_err(PlanError::from);
        let layout = layout.map_err(PlanningError::from)?;
        let policy = plan.policy(&layout).map_err(PlanningError::from)?;
        let ahead = match self.overlap {
            Overlap::Planned => Some(plan.ahead(&layout).map_err(PlanningError::from)?),
            Overlap::Never | Overlap::Opportunistic => None,
        };
        trainer.replan(&policy, self.overlap, ahead)?;
        let changed = changed(&self.plan, &plan);
        self.drift.planned(changed > 0);
        self.skip = WARM_UP;
        self.steps.clear();
        (self.measured, self.plan) = (measured, plan);
        let after = duration(self.plan.step.time);
        Ok(format!(
            "{why}; planned again: {after}, other choices for {changed} segments"
        ))
    }

    /// For the same deal of layers and the same schedule.
    fn plan_again(&self) -> Result<(Measured, Plan), PlanningError> {
        let measured = self.subject.measure()?;
        let setup = Setup {
            profile: measured.profile.clone(),
            ..self.plan.setup.clone()
        };
        let plan = self.strategy.plan_dealt(&setup, &self.plan.layers()?)?;
        Ok((measured, plan))
    }

    /// Predicted against measured, in words; nothing if no step was counted.
    ///
    /// # Errors
    ///
    /// If the plan contradicts itself.
    pub(crate) fn outcome(&self) -> Result<Option<String>, PlanningError> {
        if self.steps.is_empty() {
            return Ok(None);
        }
        let outcome = Outcome {
            predicted: Figures::predicted(&self.plan)?,
            measured: Figures::of(&self.steps),
            steps: self.steps.len(),
        };
        let mut text = outcome.table();
        if outcome.differs() {
            // What the machine does to a segment now, it did to the last steps.
            let now = match outcome.times_differ() {
                true => self.subject.measure().ok(),
                false => None,
            };
            let then = &self.measured;
            let reasons = self.circumstances.reasons(&outcome, then, now.as_ref());
            text += "\nmore than 5 % apart, for reasons such as these:";
            for reason in reasons {
                text += &format!("\n- {reason}");
            }
        }
        Ok(Some(text))
    }
}

/// Segments for which two plans of one deal choose differently.
fn changed(before: &Plan, after: &Plan) -> usize {
    let choices = |plan: &Plan| -> Vec<_> {
        let layers = plan.stages.iter().flat_map(|stage| stage.plan.by_layer());
        let segments = |group: &lynx_burn::plan::planner::LayerGroup| {
            let replay = group.replay;
            let choices = group.choices.iter();
            choices
                .map(|&choice| (choice, replay))
                .collect::<Vec<_>>()
        };
        layers.flat_map(segments).collect()
    };
    let (before, after) = (choices(before), choices(after));
    before.iter().zip(&after).filter(|(a, b)| a != b).count()
}
