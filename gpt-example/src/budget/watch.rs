//! A planned run, step by step.

use lynx_burn::measure::Measured;
use lynx_burn::plan::planner::{Plan, PlanError, Setup, Strategy};
use lynx_burn::{BackwardReport, MicroBatch, Overlap, Rehearsal, Trainer};

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
    /// Of a step, all replicas together.
    micro_batches: usize,
    /// What its steps hold, tried out with this micro-batch.
    rehearsed: Option<(MicroBatch<Gpt>, Rehearsal)>,
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
            micro_batches: args.pipeline.micro_batches,
            rehearsed: None,
            drift: Drift::new(args.budget.replan_above, args.budget.replan_every),
            skip: WARM_UP,
            steps: Vec::new(),
        }
    }

    /// The plan in force.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Tries out with a micro-batch what a step will hold, and says it beside what the plan allows.
    ///
    /// # Errors
    ///
    /// If a stage fails.
    pub(crate) fn rehearse(
        &mut self,
        trainer: &mut Trainer<Gpt>,
        batch: MicroBatch<Gpt>,
    ) -> Result<String, RunError> {
        let rehearsal = trainer.rehearse(batch.clone(), self.micro_batches)?;
        let allowed = self.plan.activations().map_err(PlanningError::from)?;
        let stages = rehearsal.retained().into_iter().zip(allowed);
        let stages: Vec<String> = stages
            .map(|(retained, allowed)| format!("{retained} (the plan allows for {allowed})"))
            .collect();
        self.rehearsed = Some((batch, rehearsal));
        Ok(format!("rehearsed activations: {}", stages.join(", ")))
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
        let mut text =
            format!("{why}; planned again: {after}, segments with another choice: {changed}");
        if let Some((batch, _)) = self.rehearsed.take() {
            text += &format!("; {}", self.rehearse(trainer, batch)?);
        }
        Ok(text)
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
        let Some((_, rehearsal)) = self.rehearsed.as_ref().filter(|_| !self.steps.is_empty())
        else {
            return Ok(None);
        };
        let outcome = Outcome {
            predicted: Figures::predicted(&self.plan, rehearsal),
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
            choices.map(|&choice| (choice, replay)).collect::<Vec<_>>()
        };
        layers.flat_map(segments).collect()
    };
    let (before, after) = (choices(before), choices(after));
    before.iter().zip(&after).filter(|(a, b)| a != b).count()
}

#[cfg(test)]
mod tests {
    use burn::prelude::*;
    use lynx_burn::MicroBatch;

    use super::*;
    use crate::budget::prepare;
    use crate::cli::train_args;
    use crate::data::micro_batches;
    use crate::pipeline::build;

    fn batch(context: usize) -> Vec<MicroBatch<Gpt>> {
        let device = Device::flex();
        let text: Vec<u8> = lipsum::LIBER_PRIMUS.bytes().take(200).collect();
        let starts: Vec<usize> = (0..8).map(|window| window * 17).collect();
        micro_batches(&text, &starts, context, 4, (&device, &device))
    }

    /// Losses and recomputed segments of six steps, planned again by another strategy after two,
    /// and by a third after four.
    fn six_steps(cut: &str, strategies: [&str; 3]) -> (Vec<f64>, Vec<u64>) {
        let model = "--layers 2 --width 32 --heads 2 --context 16 --batch 8 --micro-batches 4";
        let how = format!("--memory-budget 1GiB --strategy {}", strategies[0]);
        let mut args = train_args(&format!("{model} {cut} {how}")).expect("valid");
        let prepared = prepare(&mut args).expect("a plan");
        let (mut watch, orders) = prepared.expect("a budget");
        let mut trainer = build(&args, &[Device::flex()], orders).expect("it fits");
        let (mut losses, mut recomputed) = (Vec::new(), Vec::new());
        for step in 0..6 {
            if step > 0 && step % 2 == 0 {
                let limit = std::time::Duration::from_secs(1);
                let name = strategies[step / 2];
                watch.strategy = Strategy::named(name, limit).expect("known");
                let told = watch.replan(&mut trainer, 2.0).expect("planned again");
                assert!(told.contains("planned again"), "{told}");
            }
            let report = trainer.step(1e-2, batch(16)).expect("a step");
            losses.extend(&report.backward.losses);
            recomputed.push(report.backward.recomputed());
        }
        (losses, recomputed)
    }

    #[test]
    fn other_choices_between_steps_change_what_is_recomputed_and_no_loss() {
        let cuts = [
            ("--stages 1", 1),
            ("--stages 2", 1),
            ("--stages 1 --tp 2 --collective-link 1GB/s,100us", 2),
            ("--stages 2 --tp 2 --link 1GB/s,100us", 2),
            ("--stages 1 --replicas 2 --replica-link 1GB/s,100us", 1),
        ];
        for (cut, ranks) in cuts {
            let (losses, recomputed) = six_steps(cut, ["full", "selective", "none"]);
            let (kept, _) = six_steps(cut, ["none", "none", "none"]);
            assert_eq!(losses, kept, "{cut}");
            // Of two layers, in four micro-batches: all five segments, one, none.
            let counts = [10, 10, 2, 2, 0, 0].map(|segments| segments * 4 * ranks);
            assert_eq!(recomputed, counts, "{cut}");
        }
    }
}
