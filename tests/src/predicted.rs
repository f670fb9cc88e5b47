//! What a plan promises about memory, made from measured bytes.
//!
//! Two figures for one policy. [`planned`] is the planner's own definition. [`on_demand`] follows
//! what the runtime does today, run by run, from the same bytes; it is written anew here, and tells
//! a wrong byte from a definition that allows for more than the runtime needs.

use std::ops::Range;

use burn::optim::SgdConfig;
use lynx_burn::plan::planner::SegmentChoice::{Exposed, Retain};
use lynx_burn::plan::planner::{
    LayerGroup, Setup, StagePlan, StageProblem, evaluate_without_budget,
};
use lynx_burn::plan::policy::{Choice, Policy};
use lynx_burn::plan::profile::{ModelProfile, SegmentProfile};
use lynx_burn::{Chain, Split, Trainer, TrainerBuilder};

/// A partition and a policy.
#[derive(Clone, Debug)]
pub struct Case {
    /// Layers on each stage.
    pub stages: Vec<usize>,
    /// For each layer, which of its segments are recomputed. Those outside layers are retained.
    pub layers: Vec<Vec<bool>>,
}

impl Case {
    /// The layers of each stage.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.stages.iter().scan(0, |first, count| {
            let layers = *first..*first + count;
            *first = layers.end;
            Some(layers)
        })
    }

    /// A figure of every stage: it is given what the planner is told and the stage's policy.
    ///
    /// # Panics
    ///
    /// If the profile has no such stages.
    pub fn predict(
        &self,
        profile: &ModelProfile,
        micro_batches: u64,
        figure: impl Fn(&StageProblem, &[Vec<bool>]) -> u64,
    ) -> Vec<u64> {
        let cluster = "cpu-2-core".parse().expect("a preset");
        let setup = Setup::new(profile, &cluster, self.stages.len(), micro_batches);
        let stages = self.ranges().enumerate();
        stages
            .map(|(stage, layers)| {
                let problem = setup.problem(stage, layers.clone()).expect("like layers");
                figure(&problem, &self.layers[layers])
            })
            .collect()
    }

    /// A trainer that does it.
    ///
    /// # Panics
    ///
    /// If the model is another one.
    pub fn trainer<C: Chain>(&self, model: C) -> Trainer<C> {
        let segments = model.segments();
        let outside = |segment: &&lynx_burn::plan::layout::Segment| segment.layer.is_none();
        let before = segments.iter().take_while(outside).count();
        let after = segments.iter().rev().take_while(outside).count();
        let choice = |&recomputed: &bool| {
            if recomputed {
                Choice::Recompute
            } else {
                Choice::Retain
            }
        };
        let stages = self.ranges().map(|layers| &self.layers[layers]);
        let mut choices: Vec<Vec<Choice>> = stages
            .map(|layers| layers.iter().flatten().map(choice).collect())
            .collect();
        if let Some(first) = choices.first_mut() {
            first.splice(0..0, vec![Choice::Retain; before]);
        }
        if let Some(last) = choices.last_mut() {
            last.extend(vec![Choice::Retain; after]);
        }
        TrainerBuilder::new()
            .split(Split::Layers(self.stages.clone()))
            .policy(Policy::ByHand(choices))
            .train(model, SgdConfig::new().init())
            .expect("it fits")
    }
}

/// The profile with every segment changed.
pub fn with(profile: &ModelProfile, change: impl FnMut(&mut SegmentProfile)) -> ModelProfile {
    let mut changed = profile.clone();
    let layers = changed.kinds.iter_mut().flat_map(|kind| &mut kind.segments);
    let ends = changed.embedding.iter_mut().chain(&mut changed.head);
    layers.chain(ends).for_each(change);
    changed
}

/// The peak that the planner counts with.
///
/// # Panics
///
/// If the problem and the layers do not fit each other.
pub fn planned(problem: &StageProblem, layers: &[Vec<bool>]) -> u64 {
    let choice = |&recomputed: &bool| if recomputed { Exposed } else { Retain };
    let group = |layer: &Vec<bool>| LayerGroup::new(1, layer.iter().map(choice).collect());
    let groups = layers.iter().map(group).collect();
    let cost = evaluate_without_budget(problem, &StagePlan { groups });
    cost.expect("a plan that keeps to the rules").peak.0
}

/// The peak without workspace when a layer's runs of recomputed segments are rebuilt one at a
/// time, each when the tapes behind it are gone. A plan counts with all tapes of a layer at once.
pub fn on_demand(problem: &StageProblem, layers: &[Vec<bool>]) -> u64 {
    // Per run: what it holds from the forward on, and its tapes.
    let mut runs = vec![(problem.before.tape.0, problem.before.tape.0)];
    for layer in layers {
        for (index, (&recomputed, cost)) in layer.iter().zip(&problem.segments).enumerate() {
            let tape = cost.tape.0;
            match runs.last_mut() {
                Some(run) if recomputed && index > 0 && layer[index - 1] => run.1 += tape,
                _ if recomputed => runs.push((cost.kept_input.0, tape)),
                _ => runs.push((tape, tape)),
            }
        }
    }
    runs.push((problem.after.tape.0, problem.after.tape.0));
    let held: u64 = runs.iter().map(|run| run.0).sum();
    let mut now = held * problem.in_flight;
    let mut peak = now;
    for (held, tapes) in runs.into_iter().rev() {
        peak = peak.max(now - held + tapes);
        now -= held;
    }
    peak
}

/// The recomputed runs of these layers.
pub fn recomputed_runs(layers: &[Vec<bool>]) -> u64 {
    let runs = layers
        .iter()
        .flat_map(|layer| layer.chunk_by(|a, b| a == b));
    runs.filter(|run| run[0]).count() as u64
}
