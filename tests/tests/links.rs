//! Pipelines over links that take time: the same results, and every wait ends.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use burn::optim::SgdConfig;
use burn::prelude::*;
use lynx_burn::ids::{SegmentId, StageId};
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::sim::Cargo;
use lynx_burn::{
    Cause, LinkSpeed, MessageSpan, MicroBatch, Observer, Overlap, Pass, Recorder, StageError,
    StageFailure, TrainError, TrainerBuilder,
};
use lynx_tests::chains::{Fault, Misbehaviour, Net, NetSpec, Step};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes};
use lynx_tests::watchdog::within;

const HOURS_AWAY: &str = "1B/s,10000s";

fn device() -> Device {
    Device::flex().autodiff()
}

fn speed(text: &str) -> LinkSpeed {
    text.parse().expect("a speed")
}

fn batches(spec: &NetSpec, count: usize) -> Vec<MicroBatch<Net>> {
    (0..count).map(|_| spec.batch(2, &device())).collect()
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

fn failure(result: Result<impl std::fmt::Debug, TrainError>) -> StageFailure {
    match result.expect_err("a failure") {
        TrainError::Stage(failure) => *failure,
        other => panic!("not a stage's failure: {other}"),
    }
}

#[derive(Default)]
struct Messages(Mutex<Vec<MessageSpan>>);

impl Observer for Messages {
    fn message(&self, span: &MessageSpan) {
        self.0.lock().expect("no panic inside").push(*span);
    }
}

#[test]
fn a_message_is_as_long_as_its_tensors_and_takes_its_time() {
    within(Duration::from_secs(60), || {
        // Remembered state is one tensor with the hidden state until the next segment; what goes
        // from one stage to the next is hidden (one tensor twice), scale, blank and rows.
        let spec = NetSpec::new(vec![Step::Dense, Step::Open, Step::Dense, Step::Close]);
        let seen = Arc::new(Messages::default());
        let mut trainer = TrainerBuilder::new()
            .stages(2)
            .link(speed("1MB/s,100us"))
            .observer(seen.clone())
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        trainer.step(0.1, batches(&spec, 3)).expect("a step");
        let mut seen = seen.0.lock().expect("unlocked").clone();
        seen.sort_by_key(|message| (message.from, message.begin));
        assert_eq!(seen.len(), 6);
        let floats = 2 * 8 * 4_u64;
        // Burn's integers have four bytes on this backend.
        let (bools, rows) = (2 * 8, 2 * 4);
        for message in &seen {
            let down = message.cargo == Cargo::Boundary;
            let expected = if down {
                2 * floats + bools + rows
            } else {
                floats
            };
            assert_eq!(message.bytes.0, expected, "{message:?}");
            assert_eq!(
                message.left - message.begin,
                Duration::from_micros(expected)
            );
            assert_eq!(message.arrive - message.left, Duration::from_micros(100));
        }
        for pair in seen.windows(2).filter(|pair| pair[0].from == pair[1].from) {
            assert!(pair[1].begin >= pair[0].left, "one message at a time");
        }
    });
}

#[test]
fn an_evaluation_goes_over_the_same_links_and_gives_the_same_loss() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Dense, Step::Drop, Step::Dense]);
        let model = spec.init(&device());
        let batches = batches(&spec, 2);
        let run = |link: Option<&str>| {
            let mut builder = TrainerBuilder::new()
                .stages(3)
                .overlap(Overlap::Opportunistic);
            if let Some(link) = link {
                builder = builder.link(speed(link));
            }
            let mut trainer = builder
                .train(model.clone(), SgdConfig::new().init())
                .expect("it fits");
            let begin = Instant::now();
            let loss = trainer.evaluate(batches.clone()).expect("a loss");
            (loss, begin.elapsed())
        };
        let (loss, time) = run(Some("1GB/s,20ms"));
        assert_eq!(loss, run(None).0);
        assert!(time >= Duration::from_millis(40), "two links: {time:?}");
    });
}

#[test]
fn a_message_that_is_long_on_its_way_is_no_stall() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Dense; 3]);
        let mut trainer = TrainerBuilder::new()
            .stages(3)
            .link(speed("1GB/s,400ms"))
            .stall_timeout(Duration::from_millis(150))
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        trainer.step(0.1, batches(&spec, 1)).expect("only slow");
    });
}

/// Case 21: with messages on their way, a failure must not be waited out.
#[test]
fn a_panic_ends_waits_for_messages_that_are_hours_away() {
    within(Duration::from_secs(60), || {
        for (segment, stage, micro_batch) in [(0, 0, 1), (1, 0, 2)] {
            for overlap in [Overlap::Never, Overlap::Opportunistic] {
                let spec = faulty(segment, micro_batch, Misbehaviour::Panic);
                let mut trainer = TrainerBuilder::new()
                    .stages(3)
                    .policy(Policy::RecomputeAll)
                    .overlap(overlap)
                    .mailbox_capacity(4)
                    .link(speed(HOURS_AWAY))
                    .train(spec.init(&device()), SgdConfig::new().init())
                    .expect("it fits");
                let begin = Instant::now();
                let found = failure(trainer.step(0.1, batches(&spec, 4)));
                assert!(begin.elapsed() < Duration::from_secs(5));
                assert_eq!(found.stage, StageId(stage), "{found}");
                assert_eq!(found.place.segment, Some(SegmentId(segment)), "{found}");
                assert!(matches!(&found.cause, Cause::Panic(text) if text == "injected"));
            }
        }
    });
}

#[test]
fn a_stalled_stage_is_named_although_its_messages_are_on_their_way() {
    within(Duration::from_secs(60), || {
        let (gate, receiver) = std::sync::mpsc::channel::<()>();
        let stall = Misbehaviour::Stall(Arc::new(Mutex::new(receiver)));
        let spec = faulty(2, 1, stall);
        let mut trainer = TrainerBuilder::new()
            .stages(3)
            .link(speed("1GB/s,1ms"))
            .stall_timeout(Duration::from_millis(300))
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        let found = failure(trainer.step(0.1, batches(&spec, 4)));
        assert_eq!(found.stage, StageId(1), "{found}");
        assert!(matches!(found.cause, Cause::Stalled(_)), "{found}");
        drop(gate);
    });
}

#[test]
fn a_failure_of_recompute_inside_a_wait_says_so() {
    within(Duration::from_secs(60), || {
        let spec = faulty(1, 0, Misbehaviour::WrongShapeAgain);
        let mut trainer = TrainerBuilder::new()
            .stages(3)
            .policy(Policy::RecomputeAll)
            .overlap(Overlap::Opportunistic)
            .link(speed("1GB/s,50ms"))
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        let found = failure(trainer.step(0.1, batches(&spec, 1)));
        assert_eq!(found.stage, StageId(0), "{found}");
        assert_eq!(found.place.pass, Some(Pass::Recompute), "{found}");
        let action = found.place.action.map(|action| action.to_string());
        assert_eq!(action.as_deref(), Some("RB0"), "{found}");
        let differs = StageError::RecomputeDiffers {
            expected: vec![],
            found: vec![],
        };
        assert!(
            matches!(&found.cause, Cause::Stage(error)
                if std::mem::discriminant(error) == std::mem::discriminant(&differs)),
            "{found}"
        );
    });
}

#[test]
fn a_recorded_run_has_the_messages_of_its_schedule_in_its_channels() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Dense; 3]);
        let recorder = Arc::new(Recorder::new());
        let model = spec.init(&device());
        let batches = batches(&spec, 4);
        let mut trainer = TrainerBuilder::new()
            .stages(3)
            .link(speed("100MB/s,200us"))
            .observer(recorder.clone())
            .train(model.clone(), SgdConfig::new().init())
            .expect("it fits");
        trainer.evaluate(batches.clone()).expect("a loss");
        trainer.backward(batches.clone()).expect("a backward");
        let plain = Plain::new(model, SgdConfig::new().init(), 0);
        let expected = gradient_bytes(&plain.model, &plain.backward(&batches).gradients);
        assert_same_bytes(
            "recorded",
            &trainer.gradients().expect("gradients"),
            &expected,
        );
        let runs = recorder.take();
        assert_eq!(runs.len(), 2, "an evaluation and a step");
        for (run, of_gradients) in runs.iter().zip([0, 4]) {
            assert_eq!((run.start.stages, run.start.micro_batches), (3, 4));
            let channels = &run.timeline.channels;
            let found: Vec<_> = channels
                .iter()
                .map(|channel| (channel.from.0, channel.to.0, channel.messages.len()))
                .collect();
            let n = of_gradients;
            assert_eq!(found, [(0, 1, 4), (1, 0, n), (1, 2, 4), (2, 1, n)]);
            for message in channels.iter().flat_map(|channel| &channel.messages) {
                assert_eq!(message.arrive.0 - message.left.0, 200_000);
            }
            for track in &run.timeline.stages {
                let mut at = lynx_burn::units::Nanos(0);
                for span in &track.main {
                    assert!(span.begin == at && span.end > at);
                    at = span.end;
                }
            }
        }
        assert!(recorder.take().is_empty());
    });
}
