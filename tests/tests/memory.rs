//! What a run keeps, by the ledger and at the allocator.
//!
//! One test at a time: they read counters of the whole process.

use std::sync::{Arc, Mutex};

use burn::optim::{AdamWConfig, SgdConfig};
use burn::prelude::*;
use lynx_burn::memory::{TrackingAllocator, live_bytes};
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::{Action, Kind};
use lynx_burn::{ActionSpan, MicroBatch, Observer, Trainer, TrainerBuilder};
use lynx_tests::chains::{Fault, Misbehaviour, Net, NetSpec, Step};
use lynx_tests::watchdog::alone;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

/// Bytes of a hidden state of [`SAMPLES`] rows, [`WIDTH`] wide.
const HIDDEN: u64 = (SAMPLES * WIDTH * 4) as u64;
const WIDTH: usize = 64;
const SAMPLES: usize = 256;

fn device() -> Device {
    Device::flex().autodiff()
}

fn wide(steps: Vec<Step>) -> NetSpec {
    let mut spec = NetSpec::new(steps);
    spec.width = WIDTH;
    spec
}

fn trainer(spec: &NetSpec, builder: TrainerBuilder) -> Trainer<Net> {
    builder
        .train(spec.init(&device()), SgdConfig::new().init())
        .expect("it fits")
}

fn batches(spec: &NetSpec, count: usize) -> Vec<MicroBatch<Net>> {
    (0..count)
        .map(|_| spec.batch(SAMPLES, &Device::flex()))
        .collect()
}

/// Bytes of everything in a boundary that comes in and is large enough to count: the hidden state,
/// the float mask and the boolean mask.
const ARRIVING: u64 = 2 * HIDDEN + (SAMPLES * WIDTH) as u64;

/// Keeps what each action left behind.
#[derive(Default)]
struct Curve(Mutex<Vec<(Action, u64, u64)>>);

impl Observer for Curve {
    fn action(&self, span: &ActionSpan) {
        self.0
            .lock()
            .expect("no panic inside")
            .push((span.action, span.retained.0, live_bytes()));
    }
}

#[test]
fn the_ledger_counts_exactly_the_tensors_that_autodiff_keeps() {
    alone(|| {
        // tanh(x W): the product keeps x, and Burn's tanh keeps its argument. So each of n segments
        // keeps two hidden states, and the loss keeps the difference that it squares.
        for segments in [1, 3, 6] {
            let spec = wide(vec![Step::Tanh; segments]);
            let curve = Arc::new(Curve::default());
            let builder = TrainerBuilder::new()
                .schedule(Kind::GPipe)
                .observer(curve.clone());
            let mut trainer = trainer(&spec, builder);
            for _ in 0..2 {
                curve.0.lock().expect("unlocked").clear();
                trainer.step(0.1, batches(&spec, 3)).expect("a step");
            }
            let curve = curve.0.lock().expect("unlocked");
            for (index, (action, retained, _)) in curve.iter().enumerate().take(3) {
                assert!(matches!(action, Action::Forward(_)));
                let one = (2 * segments as u64 + 1) * HIDDEN;
                assert_eq!(
                    *retained,
                    (index as u64 + 1) * one,
                    "{segments} segments, {action}"
                );
            }
            assert_eq!(curve.last().expect("actions").1, 0);
        }
    });
}

#[test]
fn the_ledger_agrees_with_the_allocator_for_every_policy() {
    use Step::{Close, Dense, Drop, Gate, Norm, Open};
    alone(|| {
        let mut spec = wide([Open, Norm, Dense, Drop, Gate, Close].repeat(4));
        spec.per_layer = 6;
        for policy in ["retain", "recompute", "uniform:2", "selective:gate,dense"] {
            let curve = Arc::new(Curve::default());
            let builder = TrainerBuilder::new()
                .policy(policy.parse::<Policy>().expect("a policy"))
                .schedule(Kind::GPipe)
                .observer(curve.clone());
            let mut trainer = trainer(&spec, builder);
            for _ in 0..3 {
                curve.0.lock().expect("unlocked").clear();
                trainer.step(0.1, batches(&spec, 4)).expect("a step");
            }
            let curve = curve.0.lock().expect("unlocked");
            // From one forward to the next the process grows by what the ledger books. (The first
            // is left out: what was live before it is not known.) The allocator also sees
            // autodiff's nodes, some 12 kB a tape, which are no tensors.
            for pair in curve[..4].windows(2) {
                let booked = pair[1].1 as i64 - pair[0].1 as i64;
                // The input was there before the step, the ledger books it when it arrives.
                let seen = pair[1].2 as i64 - pair[0].2 as i64 + ARRIVING as i64;
                let slack = 16_000 * spec.steps.len() as i64;
                assert!(
                    (booked - seen).abs() < slack,
                    "{policy}: {booked} booked, {seen} seen"
                );
            }
        }
    });
}

fn peak(spec: &NetSpec, policy: &str, stages: usize, micro_batches: usize) -> Vec<u64> {
    let builder = TrainerBuilder::new()
        .stages(stages)
        .policy(policy.parse::<Policy>().expect("a policy"));
    let mut trainer = trainer(spec, builder);
    trainer
        .step(0.1, batches(spec, micro_batches))
        .expect("a step");
    let report = trainer
        .step(0.1, batches(spec, micro_batches))
        .expect("a step");
    report
        .backward
        .stages
        .iter()
        .map(|stage| {
            assert!(stage.tapes_measured);
            assert_eq!(stage.retained.0, 0, "{} keeps something", stage.stage);
            stage.retained_peak.0
        })
        .collect()
}

#[test]
fn under_1f1b_the_peak_does_not_grow_with_the_micro_batches() {
    alone(|| {
        let spec = wide([Step::Norm, Step::Dense].repeat(4));
        for policy in ["retain", "recompute"] {
            let few = peak(&spec, policy, 2, 8);
            assert_eq!(peak(&spec, policy, 2, 16), few, "{policy}");
            assert_eq!(peak(&spec, policy, 2, 32), few, "{policy}");
            assert!(
                few[0] > few[1],
                "{policy}: the first stage holds more micro-batches"
            );
        }
    });
}

#[test]
fn nothing_is_left_after_a_step_an_evaluation_or_a_prediction() {
    alone(|| {
        let spec = wide([Step::Open, Step::Dense, Step::Drop, Step::Close].repeat(3));
        let builder = TrainerBuilder::new()
            .stages(2)
            .policy("selective:dense".parse::<Policy>().expect("a policy"));
        let mut trainer = trainer(&spec, builder);
        let mut live = Vec::new();
        for _ in 0..8 {
            trainer.step(0.1, batches(&spec, 4)).expect("a step");
            trainer.evaluate(batches(&spec, 2)).expect("a loss");
            drop(
                trainer
                    .predict(batches(&spec, 1).remove(0).input)
                    .expect("an output"),
            );
            live.push(live_bytes());
        }
        // The first rounds fill caches of threads and tables.
        let (after_two, last) = (live[1] as i64, live[7] as i64);
        assert!((last - after_two).abs() < HIDDEN as i64 / 2, "{live:?}");
    });
}

#[test]
fn a_forward_without_its_backward_frees_its_tape() {
    alone(|| {
        let mut spec = wide(vec![Step::Dense; 6]);
        let run = |spec: &NetSpec| {
            let builder = TrainerBuilder::new().stages(2).schedule(Kind::GPipe);
            let mut trainer = builder
                .train(spec.init(&device()), AdamWConfig::new().init())
                .expect("it fits");
            trainer.step(0.1, batches(spec, 4))
        };
        run(&spec).expect("a step");
        // The last forward of the first stage panics: its other tapes are never consumed.
        spec.fault = Some(Fault {
            segment: 2,
            micro_batch: 3,
            kind: Misbehaviour::Panic,
        });
        // What a panic's backtrace is written from stays with the process, and is no tape.
        std::panic::set_hook(Box::new(|_| {}));
        // Once before counting, for what a first panic fills.
        run(&spec).expect_err("a panic");
        let before = live_bytes();
        for _ in 0..5 {
            run(&spec).expect_err("a panic");
        }
        let _ = std::panic::take_hook();
        let after = live_bytes();
        let one_tape = HIDDEN;
        assert!(
            after < before + one_tape,
            "{} bytes more than before",
            after as i64 - before as i64
        );
    });
}
