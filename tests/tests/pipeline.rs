//! Pipelines under every timing: nothing hangs, nothing is held too long, nothing is lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use burn::optim::SgdConfig;
use burn::prelude::*;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::{Kind, Schedule, ScheduleError};
use lynx_burn::{ActionSpan, BuildError, MicroBatch, Observer, TrainError, TrainerBuilder};
use lynx_tests::chains::{Net, NetSpec, Step};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes};
use lynx_tests::watchdog::within;

fn device() -> Device {
    Device::flex().autodiff()
}

fn batches(spec: &NetSpec, count: usize) -> Vec<MicroBatch<Net>> {
    (0..count).map(|_| spec.batch(2, &device())).collect()
}

/// Spends a pseudo-random time after each action, to shake the stages' timing.
struct Jitter(Mutex<u64>);

impl Observer for Jitter {
    fn action(&self, _: &ActionSpan) {
        let mut state = self.0.lock().expect("no panic inside");
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let micros = (*state >> 33) % 400;
        drop(state);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(micros) {
            std::hint::spin_loop();
        }
    }
}

/// Cases 13 and 17: fewer micro-batches than stages, mailboxes that hold nothing or one message.
#[test]
fn no_schedule_hangs_whatever_the_mailboxes_and_the_timing() {
    within(Duration::from_secs(120), || {
        let spec = NetSpec::new(vec![Step::Dense; 4]);
        let model = spec.init(&device());
        let plain = Plain::new(model.clone(), SgdConfig::new().init(), 0);
        for m in [1, 2, 3, 5] {
            let batches = batches(&spec, m);
            let expected = gradient_bytes(&plain.model, &plain.backward(&batches).gradients);
            for stages in [1, 2, 4] {
                for capacity in [0, 1, 3] {
                    for kind in [Kind::GPipe, Kind::OneFOneB] {
                        let mut trainer = TrainerBuilder::new()
                            .stages(stages)
                            .schedule(kind)
                            .mailbox_capacity(capacity)
                            .policy(Policy::RecomputeAll)
                            .observer(Arc::new(Jitter(Mutex::new(m as u64))))
                            .train(model.clone(), SgdConfig::new().init())
                            .expect("it fits");
                        for _ in 0..3 {
                            trainer.backward(batches.clone()).expect("a backward");
                        }
                        // Three backwards without an update add up; compare one more trainer's
                        // single backward to the bit, and these in number.
                        let thrice = trainer.gradients().expect("gradients");
                        assert_eq!(thrice.len(), expected.len());
                        let mut once = TrainerBuilder::new()
                            .stages(stages)
                            .schedule(kind)
                            .mailbox_capacity(capacity)
                            .train(model.clone(), SgdConfig::new().init())
                            .expect("it fits");
                        once.backward(batches.clone()).expect("a backward");
                        let what = format!("{kind} p={stages} m={m} capacity={capacity}");
                        assert_same_bytes(&what, &once.gradients().expect("gradients"), &expected);
                    }
                }
            }
        }
    });
}

/// What a stage held at the end of its forwards.
#[derive(Default)]
struct InFlight(Mutex<BTreeMap<usize, usize>>);

impl Observer for InFlight {
    fn action(&self, span: &ActionSpan) {
        let mut most = self.0.lock().expect("no panic inside");
        let entry = most.entry(span.stage.0).or_default();
        *entry = span.in_flight.max(*entry);
    }
}

/// Case 19: one activation too many; memory that grows with the number of micro-batches.
#[test]
fn a_stage_of_1f1b_holds_exactly_as_many_micro_batches_as_it_must() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Dense; 4]);
        for stages in [1, 2, 4] {
            for m in [1, 2, 3, 8, 16, 32] {
                let seen = Arc::new(InFlight::default());
                let mut trainer = TrainerBuilder::new()
                    .stages(stages)
                    .observer(seen.clone())
                    .train(spec.init(&device()), SgdConfig::new().init())
                    .expect("it fits");
                trainer.step(0.1, batches(&spec, m)).expect("a step");
                let seen: Vec<usize> = seen.0.lock().expect("unlocked").values().copied().collect();
                let expected: Vec<usize> = (0..stages).map(|s| m.min(stages - s)).collect();
                assert_eq!(seen, expected, "p={stages} m={m}");
            }
        }
    });
}

#[test]
fn a_schedule_can_be_written_by_hand_and_is_checked_before_a_thread_starts() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Dense; 2]);
        let build = |text: &str, capacity: usize| {
            TrainerBuilder::new()
                .stages(2)
                .mailbox_capacity(capacity)
                .schedule_given(text.parse::<Schedule>().expect("a schedule"))
                .train(spec.init(&device()), SgdConfig::new().init())
        };
        let by_hand = "schedule p=2 m=2\n\
            # both forwards, then both backwards\n\
            stage 0: F0 SF0 F1 SF1 RB0 B0 RB1 B1\n\
            stage 1: RF0 F0 RF1 F1 B0 SB0 B1 SB1\n";
        let mut trainer = build(by_hand, 1).expect("sound");
        trainer.step(0.1, batches(&spec, 2)).expect("a step");
        let error = trainer.step(0.1, batches(&spec, 3)).expect_err("for two");
        assert!(matches!(
            error,
            TrainError::ScheduleSize {
                micro_batches: 2,
                wanted_micro_batches: 3,
                ..
            }
        ));

        let crossed = "schedule p=2 m=2\n\
            stage 0: F0 SF0 F1 SF1 RB0 B0 RB1 B1\n\
            stage 1: RF0 F0 B0 SB0 RF1 F1 B1 SB1\n";
        build(crossed, 1).expect("one message waits in the mailbox");
        let error = build(crossed, 0).expect_err("both send first");
        assert!(
            matches!(error, BuildError::Schedule(ScheduleError::Deadlock { .. })),
            "{error}"
        );
    });
}

/// Case 5: concurrent backwards lost a leaf's gradient, or hung.
#[test]
fn pipelines_side_by_side_lose_no_gradient() {
    within(Duration::from_secs(120), || {
        let spec = NetSpec::new([Step::Open, Step::Norm, Step::Dense, Step::Close].repeat(2));
        let model = spec.init(&device());
        let batches = batches(&spec, 4);
        let plain = Plain::new(model.clone(), SgdConfig::new().init(), 0);
        let expected = gradient_bytes(&plain.model, &plain.backward(&batches).gradients);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (model, batches, expected) = (&model, &batches, &expected);
                let (model, batches) = (model.clone(), batches.clone());
                scope.spawn(move || {
                    for round in 0..25 {
                        let mut trainer = TrainerBuilder::new()
                            .stages(1 + (thread + round) % 4)
                            .policy(if round % 2 == 0 {
                                Policy::RecomputeAll
                            } else {
                                Policy::RetainAll
                            })
                            .train(model.clone(), SgdConfig::new().init())
                            .expect("it fits");
                        trainer.backward(batches.clone()).expect("a backward");
                        let found = trainer.gradients().expect("gradients");
                        assert_same_bytes(
                            &format!("thread {thread} round {round}"),
                            &found,
                            expected,
                        );
                    }
                });
            }
        });
    });
}

#[test]
fn an_evaluation_and_a_prediction_equal_the_uncut_models() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Dense, Step::Drop, Step::Norm, Step::Dense]);
        let model = spec.init(&device());
        let plain = Plain::new(model.clone(), SgdConfig::new().init(), 0);
        for stages in [1, 2, 4] {
            let mut trainer = TrainerBuilder::new()
                .stages(stages)
                .train(model.clone(), SgdConfig::new().init())
                .expect("it fits");
            let batches = batches(&spec, 3);
            let expected: Vec<f64> = batches
                .iter()
                .map(|batch| {
                    let id = lynx_burn::ids::MicroBatchId(0);
                    plain
                        .loss(id, batch, lynx_burn::Mode::Evaluation)
                        .into_scalar::<f64>()
                })
                .collect();
            let mean = expected.iter().sum::<f64>() / 3.0;
            let found = trainer.evaluate(batches.clone()).expect("a loss");
            assert!((found - mean).abs() < 1e-12, "{found} {mean}");
            let output = trainer
                .predict(batches[0].input.clone())
                .expect("an output");
            let loss = (output.hidden - batches[0].target.clone().inner())
                .square()
                .mean();
            assert_eq!(loss.into_scalar::<f64>(), expected[0]);
        }
    });
}

#[test]
fn a_prediction_between_two_steps_changes_nothing() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Dense, Step::Drop, Step::Dense]);
        let model = spec.init(&device());
        let batches = batches(&spec, 2);
        let run = |disturb: bool| {
            let mut trainer = TrainerBuilder::new()
                .stages(2)
                .train(model.clone(), SgdConfig::new().init())
                .expect("it fits");
            for _ in 0..3 {
                trainer.step(0.1, batches.clone()).expect("a step");
                if disturb {
                    trainer.evaluate(batches.clone()).expect("a loss");
                }
            }
            trainer.parameters().expect("parameters")
        };
        assert_same_bytes("disturbed", &run(true), &run(false));
    });
}
