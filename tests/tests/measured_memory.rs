//! What a plan promises, made from measured bytes, against what training really holds.
//!
//! One test at a time: they read counters of the whole process.

use std::sync::Mutex;
use std::time::Duration;

use burn::optim::SgdConfig;
use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::data::micro_batches;
use gpt_example::model::Gpt;
use lynx_burn::measure::{MeasureOptions, measure};
use lynx_burn::memory::{TrackingAllocator, live_bytes, peak_bytes, reset_peak};
use lynx_burn::plan::planner::SegmentChoice::{Exposed, Retain};
use lynx_burn::plan::planner::{
    LayerGroup, Setup, StagePlan, StageProblem, evaluate_without_budget,
};
use lynx_burn::plan::policy::{Choice, Policy};
use lynx_burn::plan::profile::{ModelProfile, SegmentProfile};
use lynx_burn::units::Bytes;
use lynx_burn::{Chain, MicroBatch, Split, StageReport, Trainer, TrainerBuilder};
use lynx_tests::chains::{NetSpec, Step};
use lynx_tests::watchdog::within;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone(test: impl FnOnce() + Send + 'static) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    within(Duration::from_secs(300), test);
}

/// A GPT of four layers, `width` wide, over as many tokens in two windows.
fn gpt(width: usize) -> Gpt {
    let config = GptConfig {
        layers: 4,
        d_model: width,
        heads: 4,
        context: width,
        vocabulary: 256,
        dropout: 0.1,
    };
    Gpt::new(&config, 3, &Device::flex().autodiff()).expect("a valid configuration")
}

fn batches(width: usize, count: usize) -> Vec<MicroBatch<Gpt>> {
    let text: Vec<u8> = (0..4000u32).map(|i| (i * i % 253) as u8).collect();
    let windows: Vec<usize> = (0..2 * count).map(|i| i * 611 % 3000).collect();
    let device = Device::flex();
    micro_batches(&text, &windows, width, count, (&device, &device))
}

fn profile<C: Chain>(model: C, batch: MicroBatch<C>) -> ModelProfile {
    let options = MeasureOptions {
        repeats: 1,
        ..MeasureOptions::default()
    };
    let device = Device::flex();
    let measured = measure(model, batch.input, batch.target, &device, &options);
    let measured = measured.expect("a chain that runs");
    assert!(measured.bytes_from.tapes_measured() && measured.bytes_from.workspace_measured());
    measured.profile
}

/// The same with every segment changed.
fn with(profile: &ModelProfile, mut change: impl FnMut(&mut SegmentProfile)) -> ModelProfile {
    let mut changed = profile.clone();
    let layers = changed.kinds.iter_mut().flat_map(|kind| &mut kind.segments);
    let ends = changed.embedding.iter_mut().chain(&mut changed.head);
    layers.chain(ends).for_each(&mut change);
    changed
}

/// Layers on each stage, and for each layer which of its segments are recomputed.
#[derive(Clone, Debug)]
struct Case {
    stages: Vec<usize>,
    layers: Vec<Vec<bool>>,
}

impl Case {
    /// What the planner says of every stage.
    fn predict(
        &self,
        profile: &ModelProfile,
        micro_batches: u64,
        figure: impl Fn(&StageProblem, &[Vec<bool>]) -> u64,
    ) -> Vec<u64> {
        let cluster = "cpu-2-core".parse().expect("a preset");
        let setup = Setup::new(profile, &cluster, self.stages.len(), micro_batches);
        let mut first = 0;
        let stages = self.stages.iter().enumerate();
        stages
            .map(|(stage, &count)| {
                let layers = first..first + count;
                first += count;
                let problem = setup.problem(stage, layers.clone()).expect("like layers");
                figure(&problem, &self.layers[layers])
            })
            .collect()
    }

    /// A trainer that does it. Segments outside layers are retained.
    fn trainer<C: Chain>(&self, model: C) -> Trainer<C> {
        let segments = model.segments();
        let mut layers = self.layers.iter();
        let mut choices: Vec<Vec<Choice>> = Vec::new();
        let before = segments.iter().take_while(|s| s.layer.is_none()).count();
        let after = segments.iter().rev().take_while(|s| s.layer.is_none());
        for &count in &self.stages {
            let recomputed = layers.by_ref().take(count).flatten();
            let choice = |&r: &bool| if r { Choice::Recompute } else { Choice::Retain };
            choices.push(recomputed.map(choice).collect());
        }
        choices[0].splice(0..0, vec![Choice::Retain; before]);
        let last = choices.len() - 1;
        choices[last].extend(vec![Choice::Retain; after.count()]);
        TrainerBuilder::new()
            .split(Split::Layers(self.stages.clone()))
            .policy(Policy::ByHand(choices))
            .train(model, SgdConfig::new().init())
            .expect("it fits")
    }
}

/// What `evaluate` says of these layers.
fn plan(problem: &StageProblem, layers: &[Vec<bool>]) -> u64 {
    let choice = |&recomputed: &bool| if recomputed { Exposed } else { Retain };
    let group = |layer: &Vec<bool>| LayerGroup::new(1, layer.iter().map(choice).collect());
    let groups = layers.iter().map(group).collect();
    let cost = evaluate_without_budget(problem, &StagePlan { groups });
    cost.expect("a plan that keeps to the rules").peak.0
}

/// The same bytes as the runtime uses them today: of a layer, one run of recomputed segments at a
/// time is rebuilt, the last first, when the tapes behind it are gone. A plan has all of them at
/// once, because windows of a layer come before its backward.
fn on_demand(problem: &StageProblem, layers: &[Vec<bool>]) -> u64 {
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

/// Trains a step, and holds each stage's book against the plan.
fn compare<C: Chain>(
    case: &Case,
    profile: &ModelProfile,
    model: C,
    mut step: impl FnMut() -> Vec<MicroBatch<C>>,
) {
    let weightless = with(profile, |segment| segment.weights = Default::default());
    let mut weightless = ModelProfile { tied: Default::default(), ..weightless };
    let mut trainer = case.trainer(model);
    trainer.step(0.1, step()).expect("a step");
    let batches = step();
    let m = batches.len() as u64;
    let report = trainer.step(0.1, batches).expect("a step").backward;
    let plans = case.predict(&weightless, m, plan);
    weightless = with(&weightless, |segment| segment.workspace = Bytes(0));
    let books = case.predict(&weightless, m, plan);
    let demands = case.predict(&weightless, m, on_demand);
    for (index, StageReport { retained_peak: Bytes(real), tapes_measured, .. }) in report.stages.into_iter().enumerate() {
        println!("m={m} {case:?} s{index} real {real} plan {:.3} book {} ({:.3}) demand {} ({:.3})", real as f64/plans[index] as f64, books[index], real as f64/books[index] as f64, demands[index], real as f64/demands[index] as f64);
    }
}

#[test]
fn gpt_case() {
    alone(|| {
        let profile = profile(gpt(64), batches(64, 1).remove(0));
        let mut runner = TestRunner::new_with_rng(Config::with_cases(60), proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha));
        let layers = || prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 4);
        let stages = prop::sample::select(vec![vec![4usize], vec![2,2], vec![1,3],vec![3,1],vec![1,1,1,1]]);
        runner.run(&((stages, layers()).prop_map(|(stages, layers)| Case { stages, layers }), prop::sample::select(vec![1usize, 4])), |(case, m)| {
            compare(&case, &profile, gpt(64), || batches(64, m));
            Ok(())
        }).unwrap();
    });
}
#[test]
fn net_case() {
    use Step::*;
    alone(|| {
        let mut runner = TestRunner::new_with_rng(Config::with_cases(80), proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha));
        let step = prop::sample::select(vec![Dense, Tanh, Norm, Open, Close, Drop, Gate]);
        let layers = || prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 2);
        runner.run(&(prop::collection::vec(step, 4), layers(), prop::sample::select(vec![1usize, 4])), |(mut steps, layers, m)| {
            steps.insert(0, Dense);
            println!("{steps:?}");
            let mut spec = NetSpec::new(steps.repeat(2));
            spec.per_layer = 5; spec.width = 64;
            let device = Device::flex();
            let batch = || spec.batch(256, &device);
            let profile = profile(spec.init(&device.clone().autodiff()), batch());
            let case = Case { stages: vec![1, 1], layers };
            compare(&case, &profile, spec.init(&device.clone().autodiff()), || (0..m).map(|_| batch()).collect());
            Ok(())
        }).unwrap();
    });
}
