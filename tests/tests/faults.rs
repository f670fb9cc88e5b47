//! A stage that fails ends every thread and is named in one error.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use burn::optim::SgdConfig;
use burn::prelude::*;
use lynx_burn::ids::{MicroBatchId, SegmentId, StageId};
use lynx_burn::plan::policy::Policy;
use lynx_burn::{
    Cause, MicroBatch, NonFinite, Pass, StageError, StageFailure, TrainError, Trainer,
    TrainerBuilder,
};
use lynx_tests::chains::{Fault, Misbehaviour, Net, NetSpec, Step};
use lynx_tests::oracle::assert_same_bytes;
use lynx_tests::watchdog::{alone, stage_threads};

fn device() -> Device {
    Device::flex().autodiff()
}

fn faulty(segment: usize, micro_batch: usize, kind: Misbehaviour) -> NetSpec {
    let mut spec = NetSpec::new(vec![Step::Dense; 6]);
    spec.fault = Some(Fault {
        segment,
        micro_batch,
        kind,
    });
    spec
}

fn trainer(spec: &NetSpec, stages: usize, policy: Policy) -> Trainer<Net> {
    // Writing a backtrace takes time.
    let stall = match spec.fault.as_ref().map(|fault| &fault.kind) {
        Some(Misbehaviour::Stall(_)) => Duration::from_millis(300),
        _ => Duration::from_secs(20),
    };
    TrainerBuilder::new()
        .stages(stages)
        .policy(policy)
        .stall_timeout(stall)
        .train(spec.init(&device()), SgdConfig::new().init())
        .expect("it fits")
}

fn batches(spec: &NetSpec, count: usize) -> Vec<MicroBatch<Net>> {
    (0..count).map(|_| spec.batch(2, &device())).collect()
}

fn failure(result: Result<impl std::fmt::Debug, TrainError>) -> StageFailure {
    match result.expect_err("a failure") {
        TrainError::Stage(failure) => *failure,
        other => panic!("not a stage's failure: {other}"),
    }
}

#[test]
fn a_panic_in_one_stage_ends_all_and_says_where() {
    alone(|| {
        for (segment, stage) in [(0, 0), (2, 1), (3, 1), (5, 2)] {
            for policy in [Policy::RetainAll, Policy::RecomputeAll] {
                let spec = faulty(segment, 1, Misbehaviour::Panic);
                let mut trainer = trainer(&spec, 3, policy);
                let found = failure(trainer.step(0.1, batches(&spec, 4)));
                assert_eq!(found.stage, StageId(stage), "{found}");
                assert_eq!(found.place.micro_batch, Some(MicroBatchId(1)), "{found}");
                assert_eq!(found.place.segment, Some(SegmentId(segment)), "{found}");
                assert_eq!(found.place.pass, Some(Pass::Forward), "{found}");
                assert!(matches!(&found.cause, Cause::Panic(text) if text == "injected"));
                assert_eq!(
                    found.to_string(),
                    format!(
                        "stage {stage} failed at micro-batch 1, segment {segment}, action F1, forward: panic: injected"
                    ),
                );
                assert_eq!(stage_threads(), 0, "every thread has ended");
                let again = trainer
                    .step(0.1, batches(&spec, 4))
                    .expect_err("it is over");
                assert!(matches!(again, TrainError::Ended), "{again}");
            }
        }
    });
}

/// Case 21: one stage fails, the others must not be what is reported, and must not wait.
#[test]
fn a_stage_that_stalls_is_the_one_that_is_named() {
    alone(|| {
        for (segment, stage) in [(0, 0), (3, 1), (5, 2)] {
            let (gate, receiver) = mpsc::channel::<()>();
            let spec = faulty(
                segment,
                1,
                Misbehaviour::Stall(Arc::new(Mutex::new(receiver))),
            );
            let mut trainer = trainer(&spec, 3, Policy::RetainAll);
            let begin = Instant::now();
            let found = failure(trainer.step(0.1, batches(&spec, 4)));
            assert!(
                begin.elapsed() < Duration::from_secs(5),
                "{:?}",
                begin.elapsed()
            );
            assert_eq!(found.stage, StageId(stage), "{found}");
            assert_eq!(found.place.segment, Some(SegmentId(segment)), "{found}");
            assert!(matches!(found.cause, Cause::Stalled(_)), "{found}");
            assert_eq!(stage_threads(), 1, "only the stuck thread is left");
            // It ends by itself as soon as the model lets go.
            drop(gate);
            while stage_threads() > 0 {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn a_wrong_shape_is_found_in_the_segment_that_cannot_use_it() {
    alone(|| {
        // The segment after the one that misbehaves cannot multiply.
        let spec = faulty(2, 0, Misbehaviour::WrongShape);
        let found = failure(trainer(&spec, 3, Policy::RetainAll).step(0.1, batches(&spec, 2)));
        assert_eq!(
            (found.stage, found.place.segment),
            (StageId(1), Some(SegmentId(3)))
        );
        assert!(matches!(found.cause, Cause::Panic(_)), "{found}");
        // The loss belongs to the last segment.
        let spec = faulty(5, 0, Misbehaviour::WrongShape);
        let found = failure(trainer(&spec, 3, Policy::RetainAll).step(0.1, batches(&spec, 2)));
        assert_eq!(
            (found.stage, found.place.segment),
            (StageId(2), Some(SegmentId(5)))
        );
        assert_eq!(stage_threads(), 0);
    });
}

/// Case 7: a recomputation that gives other shapes than the forward did.
#[test]
fn a_recomputation_of_another_shape_is_an_error_of_its_own() {
    alone(|| {
        let mut spec = NetSpec::new(vec![Step::Dense; 4]);
        spec.fault = Some(Fault {
            segment: 1,
            micro_batch: 0,
            kind: Misbehaviour::WrongShapeAgain,
        });
        let mut trainer = trainer(&spec, 2, Policy::RecomputeAll);
        let found = failure(trainer.step(0.1, batches(&spec, 1)));
        assert_eq!(
            (found.stage, found.place.segment),
            (StageId(0), Some(SegmentId(1)))
        );
        assert_eq!(found.place.pass, Some(Pass::Recompute));
        assert!(
            matches!(
                found.cause,
                Cause::Stage(StageError::RecomputeDiffers { .. })
            ),
            "{found}"
        );
    });
}

#[test]
fn a_loss_that_is_not_a_number_changes_nothing_and_the_trainer_goes_on() {
    alone(|| {
        let spec = faulty(3, 1, Misbehaviour::NotANumber);
        let mut trainer = trainer(&spec, 2, Policy::RecomputeAll);
        let before = trainer.parameters().expect("parameters");
        let error = trainer
            .step(0.1, batches(&spec, 2))
            .expect_err("not a number");
        assert!(
            matches!(error, TrainError::NonFiniteLoss { step: 0 }),
            "{error}"
        );
        assert_same_bytes("after", &trainer.parameters().expect("parameters"), &before);
        assert!(trainer.gradients().expect("gradients").is_empty());
        // One micro-batch: the faulty one is not among them.
        let report = trainer.step(0.1, batches(&spec, 1)).expect("a step");
        assert!(report.update.applied && report.loss().is_finite());
    });
}

#[test]
fn a_loss_that_is_not_a_number_can_be_passed_over() {
    alone(|| {
        let spec = faulty(3, 1, Misbehaviour::NotANumber);
        let mut trainer = TrainerBuilder::new()
            .stages(2)
            .non_finite(NonFinite::SkipUpdate)
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        let before = trainer.parameters().expect("parameters");
        let report = trainer.step(0.1, batches(&spec, 2)).expect("passed over");
        assert!(!report.update.applied && report.loss().is_nan());
        assert_same_bytes("after", &trainer.parameters().expect("parameters"), &before);
        assert_eq!(trainer.steps(), 1);
    });
}

#[test]
fn a_gradient_that_is_not_a_number_is_found_when_clipping() {
    alone(|| {
        // A norm over one number yields its shift alone, which is 0. So with one sample, the loss is
        // the target's square, and the shift's gradient twice the target.
        let mut spec = NetSpec::new([Step::Dense, Step::Norm]);
        spec.width = 1;
        let mut trainer = TrainerBuilder::new()
            .clip_norm(1.0)
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        // 1.5e19 squared fits into a float, 3e19 squared does not.
        let mut batch = spec.batch(1, &device());
        batch.target = Tensor::full([1, 1], 1.5e19, &device());
        let error = trainer.step(0.1, vec![batch]).expect_err("infinite");
        assert!(
            matches!(error, TrainError::NonFiniteGradient { step: 0, .. }),
            "{error}"
        );
    });
}

#[test]
fn a_step_without_anything_to_weigh_is_refused() {
    alone(|| {
        let spec = NetSpec::new(vec![Step::Dense; 2]);
        let mut trainer = trainer(&spec, 2, Policy::RetainAll);
        let error = trainer.step(0.1, Vec::new()).expect_err("nothing");
        assert!(
            matches!(error, TrainError::NoWeight { micro_batches: 0 }),
            "{error}"
        );
        let mut batch = spec.batch(2, &device());
        batch.weight = 0;
        let error = trainer.step(0.1, vec![batch]).expect_err("no weight");
        assert!(
            matches!(error, TrainError::NoWeight { micro_batches: 1 }),
            "{error}"
        );
        trainer.step(0.1, batches(&spec, 1)).expect("it goes on");
    });
}
