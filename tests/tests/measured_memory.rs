//! What a plan promises, made from measured bytes, against what training really holds.
//!
//! One test at a time: they read counters of the whole process.

use burn::prelude::*;
use gpt_example::config::{GptConfig, Modules};
use gpt_example::model::Gpt;
use lynx_burn::measure::{BytesFrom, MeasureOptions, measure};
use lynx_burn::memory::{TrackingAllocator, live_bytes, peak_bytes, reset_peak};
use lynx_burn::plan::profile::{ModelProfile, WeightBytes};
use lynx_burn::units::Bytes;
use lynx_burn::{Chain, MicroBatch};
use lynx_tests::chains::{NetSpec, Step};
use lynx_tests::gpts;
use lynx_tests::predicted::{Case, on_demand, planned, recomputed_runs, with};
use lynx_tests::watchdog::alone;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

/// The same random cases every time: a tolerance is not a matter of luck.
fn runner(cases: u32) -> TestRunner {
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(Config::with_cases(cases), random)
}

fn policies(layers: usize) -> impl Strategy<Value = Vec<Vec<bool>>> {
    prop::collection::vec(prop::collection::vec(any::<bool>(), 5), layers)
}

fn config(width: usize) -> GptConfig {
    GptConfig {
        d_model: width,
        context: width,
        ..gpts::config(4, 0.1)
    }
}

/// A GPT of four layers, `width` wide, whose windows are as many tokens long. Of Burn's modules: what
/// one segment's tape keeps of them does not depend on its neighbours, so figures can be exact. (A
/// fused norm keeps its input, which may be a neighbour's output.)
fn gpt(width: usize) -> Gpt {
    fused_gpt(width).with_modules(Modules::Burn)
}

/// The same of fused modules.
fn fused_gpt(width: usize) -> Gpt {
    gpts::gpt(&config(width))
}

/// Micro-batches of two windows.
fn batches(width: usize, count: usize) -> Vec<MicroBatch<Gpt>> {
    gpts::batches(&config(width), 2 * count, count)
}

fn profile<C: Chain>(model: C, batch: MicroBatch<C>) -> ModelProfile {
    let options = MeasureOptions {
        repeats: 1,
        ..MeasureOptions::default()
    };
    let device = Device::flex();
    let measured = measure(model, batch.input, batch.target, &device, &options);
    let measured = measured.expect("a chain that runs");
    assert_eq!(measured.bytes_from, BytesFrom::Allocator);
    measured.profile
}

/// Takes a step, and holds each stage's book against the plan.
///
/// - The book never exceeds the plan.
/// - The book has neither temporaries nor gradients, so it is held against the plan without
///   workspace too. It exceeds that by one boundary at most: it has what has arrived and what has
///   not left, which a plan has in the workspace.
/// - It is at most a twentieth below what the runtime needs by the same bytes, and `passengers` for
///   each run of recomputed segments. Those are bytes that pass through segments which do not
///   touch them, such as a residual stream. A profile has one figure for the input that a
///   recomputed segment keeps, the largest: where a neighbour's tape or another run's input holds
///   a passenger too, the plan counts it again.
fn compare<C: Chain>(
    case: &Case,
    (model, profile): (C, &ModelProfile),
    passengers: u64,
    mut step: impl FnMut() -> Vec<MicroBatch<C>>,
) {
    let mut weightless = with(profile, |segment| segment.weights = WeightBytes::default());
    weightless.tied = WeightBytes::default();
    let book_only = with(&weightless, |segment| segment.workspace = Bytes(0));
    let mut trainer = case.trainer(model);
    // The first step fills caches.
    trainer.step(0.1, step()).expect("a step");
    let batches = step();
    let m = batches.len() as u64;
    let report = trainer.step(0.1, batches).expect("a step").backward;
    let plans = case.predict(&weightless, m, planned);
    let books = case.predict(&book_only, m, planned);
    let needed = case.predict(&book_only, m, on_demand);
    let again = case.predict(&book_only, m, |problem, layers| {
        problem.in_flight * recomputed_runs(layers) * passengers
    });
    let boundary = profile.segments().map(|s| s.boundary.0).max().unwrap_or(0);
    for (index, stage) in report.stages.iter().enumerate() {
        let real = stage.retained_peak.0;
        let (plan, book, need) = (plans[index], books[index], needed[index]);
        let what = format!("{case:?}, m = {m}, {}: {real}", stage.stage);
        assert!(stage.tapes_measured);
        assert!(real <= plan, "{what} exceeds the plan's {plan}");
        assert!(
            real <= book + boundary,
            "{what} exceeds {book} and a boundary"
        );
        let least = (need - need / 20).saturating_sub(again[index]);
        assert!(real >= least, "{what} is far less than {need}");
    }
}

#[test]
fn what_a_stage_of_a_gpt_retains_is_what_was_planned() {
    alone(|| {
        let profile = profile(gpt(64), batches(64, 1).remove(0));
        let pipelines: [&[usize]; 5] = [&[4], &[2, 2], &[1, 3], &[3, 1], &[1, 1, 1, 1]];
        let check = |stages: &[usize], layers: &[Vec<bool>], m: usize| {
            let case = Case {
                stages: stages.to_vec(),
                layers: layers.to_vec(),
            };
            // The residual stream: 128 tokens, 64 wide.
            compare(&case, (gpt(64), &profile), 128 * 64 * 4, || batches(64, m));
        };
        for stages in pipelines {
            for m in [1, 4] {
                for recomputed in ["_____", "#####", "_#___", "_#__#"] {
                    let layer: Vec<bool> = recomputed.chars().map(|c| c == '#').collect();
                    check(stages, &vec![layer; 4], m);
                }
            }
        }
        let pipeline = prop::sample::select(pipelines.to_vec());
        let steps = prop::sample::select(vec![1, 4]);
        let cases = (pipeline, policies(4), steps);
        let outcome = runner(24).run(&cases, |(stages, layers, m)| {
            check(stages, &layers, m);
            Ok(())
        });
        outcome.expect("no exception");
    });
}

#[test]
fn stages_of_fused_modules_never_retain_more_than_was_planned() {
    alone(|| {
        let mut profile = profile(fused_gpt(64), batches(64, 1).remove(0));
        profile = with(&profile, |segment| segment.weights = WeightBytes::default());
        profile.tied = WeightBytes::default();
        for stages in [&[4][..], &[2, 2], &[1, 3]] {
            for recomputed in ["_____", "#####", "_#___", "_#__#", "#__#_"] {
                let layer: Vec<bool> = recomputed.chars().map(|c| c == '#').collect();
                let case = Case {
                    stages: stages.to_vec(),
                    layers: vec![layer; 4],
                };
                let mut trainer = case.trainer(fused_gpt(64));
                trainer.step(0.1, batches(64, 4)).expect("a step");
                let report = trainer.step(0.1, batches(64, 4)).expect("a step").backward;
                let plans = case.predict(&profile, 4, planned);
                for (stage, plan) in report.stages.iter().zip(plans) {
                    let real = stage.retained_peak.0;
                    assert!(0 < real && real <= plan, "{case:?}: {real} of {plan}");
                }
            }
        }
    });
}

#[test]
fn a_gpt_all_of_which_is_retained_on_one_stage_holds_the_sum_of_its_tapes_to_the_byte() {
    alone(|| {
        let profile = profile(gpt(64), batches(64, 1).remove(0));
        let case = Case {
            stages: vec![4],
            layers: vec![vec![false; 5]; 4],
        };
        let mut trainer = case.trainer(gpt(64));
        trainer.step(0.1, batches(64, 1)).expect("a step");
        let report = trainer.step(0.1, batches(64, 1)).expect("a step").backward;
        let tapes: u64 = profile.segments().map(|segment| segment.tape.0).sum();
        assert_eq!(report.retained_peak(), Bytes(tapes));
    });
}

#[test]
fn what_stages_of_random_chains_retain_is_what_was_planned() {
    use Step::{Close, Dense, Drop, Gate, Norm, Open, Tanh};
    alone(|| {
        let step = prop::sample::select(vec![Close, Dense, Drop, Gate, Norm, Open, Tanh]);
        let m = prop::sample::select(vec![1, 4]);
        let cases = (prop::collection::vec(step, 4), policies(2), m);
        let outcome = runner(48).run(&cases, |(rest, layers, m)| {
            let layer = [vec![Dense], rest].concat();
            let mut spec = NetSpec::new(layer.repeat(2));
            spec.per_layer = layer.len();
            spec.width = 64;
            let device = Device::flex();
            let model = || spec.init(&device.clone().autodiff());
            let batch = || spec.batch(256, &device);
            let profile = profile(model(), batch());
            // The layer with the loss is of another kind, so each is a stage.
            let case = Case {
                stages: vec![1, 1],
                layers,
            };
            // A hidden state remembered beside, the float mask and the boolean mask.
            let passengers = 2 * 256 * 64 * 4 + 256 * 64;
            let steps = || (0..m).map(|_| batch()).collect();
            compare(&case, (model(), &profile), passengers, steps);
            Ok(())
        });
        outcome.expect("no exception");
    });
}

#[test]
fn the_process_never_holds_more_than_was_planned() {
    alone(|| {
        const WIDTH: usize = 128;
        let profile = profile(gpt(WIDTH), batches(WIDTH, 1).remove(0));
        // Parameters are there before; there is no optimizer's state.
        let rest = |weights: &mut WeightBytes| {
            weights.parameters = Bytes(0);
            weights.optimizer = Bytes(0);
        };
        let mut profile = with(&profile, |segment| rest(&mut segment.weights));
        rest(&mut profile.tied);
        for recomputed in ["_____", "#####", "_#___", "__#_#"] {
            let layer: Vec<bool> = recomputed.chars().map(|c| c == '#').collect();
            let case = Case {
                stages: vec![4],
                layers: vec![layer; 4],
            };
            let mut trainer = case.trainer(gpt(WIDTH));
            trainer.step(0.1, batches(WIDTH, 4)).expect("a step");
            let step = batches(WIDTH, 4);
            let before = live_bytes();
            reset_peak();
            trainer.backward(step).expect("a backward");
            let real = peak_bytes() - before;
            let plan = case.predict(&profile, 4, planned)[0];
            assert!(real <= plan, "{recomputed}: {real} exceeds {plan}");
            // A plan has all tapes of a layer and its largest workspace at the same time.
            let least = plan - plan * 3 / 20;
            assert!(
                real >= least,
                "{recomputed}: {real} is far less than {plan}"
            );
        }
    });
}
