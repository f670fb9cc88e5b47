//! What is tried out before a step is what the step does.
//!
//! One test at a time: they read counters of the whole process.

use burn::optim::AdamWConfig;
use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::model::Gpt;
use lynx_burn::memory::{TrackingAllocator, live_bytes, peak_bytes, reset_peak};
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::layout::ChainLayout;
use lynx_burn::plan::partition::Partition;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::units::Bytes;
use lynx_burn::{MicroBatch, Overlap, Rehearsal, StageReport, TrainError, Trainer, TrainerBuilder};
use lynx_tests::chains::{Fault, Misbehaviour, NetSpec, Step};
use lynx_tests::gpts;
use lynx_tests::oracle::assert_same_bytes;
use lynx_tests::overlap::per_segment;
use lynx_tests::watchdog::alone;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

const LAYERS: usize = 4;
const MICRO_BATCHES: usize = 4;

/// Retained, recomputed, a layer together, and what lies between.
const POLICIES: [&str; 4] = ["retain", "recompute", "uniform:2", "selective:attention"];

fn config() -> GptConfig {
    GptConfig {
        d_model: 64,
        context: 64,
        ..gpts::config(LAYERS, 0.1)
    }
}

fn batches() -> Vec<MicroBatch<Gpt>> {
    gpts::batches(&config(), 2 * MICRO_BATCHES, MICRO_BATCHES)
}

fn builder(policy: &str, (stages, ranks): (usize, usize), kind: Kind) -> TrainerBuilder {
    TrainerBuilder::new()
        .stages(stages)
        .ranks(ranks)
        .schedule(kind)
        .policy(policy.parse::<Policy>().expect("a policy"))
        .single_threaded(true)
        .seed(3)
}

fn trainer(builder: TrainerBuilder) -> Trainer<Gpt> {
    let optimizer = AdamWConfig::new().init();
    builder
        .train(gpts::gpt(&config()), optimizer)
        .expect("it fits")
}

/// Rehearses and takes steps; returns what was rehearsed, and what the stages of the last step and
/// the allocator told.
fn both(builder: TrainerBuilder) -> (Rehearsal, Vec<StageReport>, u64) {
    let mut trainer = trainer(builder);
    let rehearsed = trainer.rehearse(batches().remove(0), MICRO_BATCHES);
    let rehearsed = rehearsed.expect("a rehearsal");
    trainer.step(1e-3, batches()).expect("a step");
    let batches = batches();
    let before = live_bytes();
    reset_peak();
    let report = trainer.backward(batches).expect("a backward");
    (rehearsed, report.stages, peak_bytes() - before)
}

fn peaks(stages: &[StageReport]) -> Vec<u64> {
    stages.iter().map(|stage| stage.retained_peak.0).collect()
}

fn rehearsed_peaks(rehearsal: &Rehearsal) -> Vec<u64> {
    let workers = rehearsal.workers.iter();
    workers.map(|worker| worker.retained_peak.0).collect()
}

const CUTS: [(usize, usize); 4] = [(1, 1), (2, 1), (1, 2), (2, 2)];

#[test]
fn recomputed_on_demand_a_step_retains_to_the_byte_what_was_rehearsed() {
    alone(|| {
        for cut in CUTS {
            for kind in [Kind::OneFOneB, Kind::GPipe] {
                for policy in POLICIES {
                    let what = format!("{policy}, {cut:?}, {kind}");
                    let (rehearsed, stages, allocated) = both(builder(policy, cut, kind));
                    assert!(stages.iter().all(|stage| stage.tapes_measured));
                    assert_eq!(peaks(&stages), rehearsed_peaks(&rehearsed), "{what}");
                    let predicted = rehearsed.allocated_peak().expect("it is counted").0;
                    // Peaks of several workers need not coincide.
                    let least = if cut == (1, 1) { 0.9 } else { 0.5 };
                    let ratio = allocated as f64 / predicted as f64;
                    assert!((least..=1.01).contains(&ratio), "{what}: {ratio}");
                }
            }
        }
    });
}

#[test]
fn every_replica_retains_to_the_byte_what_was_rehearsed_of_one() {
    alone(|| {
        for cut in CUTS {
            for policy in ["retain", "selective:attention"] {
                let what = format!("{policy}, {cut:?}");
                let builder = builder(policy, cut, Kind::OneFOneB).replicas(2);
                let (rehearsed, stages, _) = both(builder);
                let one = rehearsed_peaks(&rehearsed);
                assert_eq!(one.len(), cut.0 * cut.1, "{what}");
                assert_eq!(peaks(&stages), [one.clone(), one].concat(), "{what}");
            }
        }
    });
}

#[test]
fn what_is_planned_in_windows_is_retained_as_rehearsed_where_windows_are_long() {
    alone(|| {
        for (stages, ranks) in CUTS {
            for policy in &POLICIES[1..] {
                let layout = ChainLayout::new(Gpt::segments_of(LAYERS)).expect("a chain");
                let partition = Partition::even(&layout, stages).expect("as many layers");
                // Longer than a recompute takes on a machine that others use too.
                let slow = "100MB/s,20ms".parse().expect("a speed");
                let builder = builder(policy, (stages, ranks), Kind::OneFOneB)
                    .link(slow)
                    .collective_link(slow)
                    .mailbox_capacity(MICRO_BATCHES)
                    .overlap(Overlap::Planned)
                    .ahead(per_segment(&partition, || Advance::Always));
                let what = format!("{policy}, {stages} x {ranks}");
                let (rehearsed, stages, _) = both(builder);
                assert_eq!(peaks(&stages), rehearsed_peaks(&rehearsed), "{what}");
            }
        }
    });
}

#[test]
fn a_rehearsal_changes_no_gradient_and_no_parameter() {
    alone(|| {
        for (cut, replicas) in CUTS.into_iter().zip([1, 2, 1, 2]) {
            let make = || {
                let builder = builder("recompute", cut, Kind::OneFOneB).clip_norm(1.0);
                trainer(builder.replicas(replicas))
            };
            let (mut one, mut other) = (make(), make());
            let rehearse = |trainer: &mut Trainer<Gpt>| {
                let rehearsed = trainer.rehearse(batches().remove(0), MICRO_BATCHES);
                rehearsed.expect("a rehearsal");
            };
            rehearse(&mut one);
            for _ in 0..2 {
                let expected = other.backward(batches()).expect("a backward");
                let found = one.backward(batches()).expect("a backward");
                assert_eq!(found.losses, expected.losses);
                rehearse(&mut one);
                let gradients = one.gradients().expect("gradients");
                assert_same_bytes(
                    "gradients",
                    &gradients,
                    &other.gradients().expect("gradients"),
                );
                for trainer in [&mut one, &mut other] {
                    trainer.update(1e-3).expect("an update");
                }
            }
            let parameters = one.parameters().expect("parameters");
            assert_same_bytes(
                "parameters",
                &parameters,
                &other.parameters().expect("parameters"),
            );
            assert_eq!(one.steps(), 2);
        }
    });
}

#[test]
fn a_segment_that_fails_is_named_as_in_a_step() {
    alone(|| {
        let mut spec = NetSpec::new([Step::Dense; 4]);
        spec.fault = Some(Fault {
            segment: 3,
            micro_batch: 1,
            kind: Misbehaviour::Panic,
        });
        let device = Device::flex().autodiff();
        let builder = TrainerBuilder::new().stages(2);
        let optimizer = AdamWConfig::new().init();
        let trainer = builder.train(spec.init(&device), optimizer);
        let mut trainer = trainer.expect("it fits");
        std::panic::set_hook(Box::new(|_| {}));
        let failed = trainer.rehearse(spec.batch(3, &device), 2);
        let again = trainer.rehearse(spec.batch(3, &device), 2);
        let _ = std::panic::take_hook();
        let error = failed.expect_err("a panic").to_string();
        assert!(
            error.contains("stage 1") && error.contains("segment 3"),
            "{error}"
        );
        assert!(matches!(again, Err(TrainError::Ended)));
    });
}

#[test]
fn of_several_ranks_the_one_that_holds_most_speaks_for_its_stage() {
    alone(|| {
        let (rehearsed, _, _) = both(builder("recompute", (2, 2), Kind::OneFOneB));
        assert_eq!(rehearsed.workers.len(), 4);
        let retained = rehearsed.retained();
        assert_eq!(retained.len(), 2);
        for (stage, &most) in retained.iter().enumerate() {
            let ranks = rehearsed.workers.iter().filter(|w| w.stage.0 == stage);
            let ranks: Vec<Bytes> = ranks.map(|worker| worker.retained_peak).collect();
            assert!(ranks.len() == 2 && ranks.contains(&most));
            assert!(ranks.iter().all(|&rank| rank <= most));
        }
    });
}
