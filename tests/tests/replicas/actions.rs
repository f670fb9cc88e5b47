//! The sum over replicas is an action of the schedule, carried out once by every worker.

use std::sync::Arc;

use lynx_burn::plan::cluster::Link;
use lynx_burn::plan::schedule::{Action, Kind, Schedule, reduce_gradients, transfers};
use lynx_burn::plan::sim::timeline::SpanKind;
use lynx_burn::units::Bytes;
use lynx_burn::{BuildError, LinkSpeed, Recorder};
use lynx_tests::gpts::{batches, config};
use lynx_tests::oracle::assert_same_bytes;
use lynx_tests::watchdog::alone;

use super::{Actions, backward, builder, trainer};

#[test]
fn every_worker_reduces_once_a_step_behind_its_last_backward_and_never_in_an_evaluation() {
    alone(|| {
        let config = config(2, 0.0);
        for (replicas, stages, ranks) in [(1, 2, 2), (2, 1, 1), (2, 2, 1), (3, 2, 2)] {
            let seen = Arc::new(Actions::default());
            let builder = builder(replicas, stages, ranks).observer(seen.clone());
            let mut trainer = trainer(&config, builder);
            let each = 2;
            for _ in 0..2 {
                let parts = batches(&config, 6, each * replicas);
                trainer.step(1e-3, parts).expect("a step");
                let told = seen.take();
                let reductions = told.iter().filter(|(_, action)| action.is_reduction());
                let expected = if replicas == 1 {
                    0
                } else {
                    replicas * stages * ranks
                };
                assert_eq!(reductions.count(), expected);
                for replica in 0..replicas {
                    for (stage, rank) in (0..stages).flat_map(|s| (0..ranks).map(move |r| (s, r))) {
                        let own = told
                            .iter()
                            .filter(|(who, _)| *who == (replica, stage, rank));
                        let own: Vec<Action> = own.map(|(_, action)| *action).collect();
                        let schedule = trainer.schedule_for(each * replicas).expect("sound");
                        assert_eq!(own, schedule.stages[stage], "as the schedule says");
                        let last = own.last().expect("actions").is_reduction();
                        assert_eq!(last, replicas > 1);
                    }
                }
            }
            let parts = batches(&config, 6, 3);
            trainer.evaluate(parts).expect("a loss");
            assert!(seen.take().iter().all(|(_, action)| action.is_forward()));
        }
    });
}

#[test]
fn a_recorded_step_shows_the_reduction_of_every_stage() {
    alone(|| {
        let config = config(2, 0.0);
        let recorder = Arc::new(Recorder::new());
        let builder = builder(2, 2, 1).observer(recorder.clone());
        let mut trainer = trainer(&config, builder);
        let report = trainer.step(1e-3, batches(&config, 4, 4)).expect("a step");
        let run = recorder.take().remove(0);
        assert_eq!((run.start.replicas, run.start.micro_batches), (2, 4));
        assert_eq!(run.timeline.stages.len(), 2, "the first replica's");
        for stage in &run.timeline.stages {
            let of_kind = |kind| stage.main.iter().filter(move |span| span.kind == kind);
            assert_eq!(of_kind(SpanKind::Reduction).count(), 1);
            assert_eq!(stage.main.last().expect("spans").kind, SpanKind::Reduction);
            assert!(
                of_kind(SpanKind::Forward).count() >= 2,
                "micro-batches of one replica"
            );
        }
        for stage in &report.backward.stages {
            assert!(stage.times.reduction.0 > 0, "{stage:?}");
        }
    });
}

#[test]
fn a_schedule_by_hand_must_reduce_where_there_are_several_replicas_and_only_there() {
    alone(|| {
        let config = config(2, 0.1);
        let plain = transfers::eager(&Kind::OneFOneB.generate(2, 2).expect("a schedule"));
        let reduced = reduce_gradients(&plain);
        let with = |replicas, schedule: &Schedule| {
            let optimizer = burn::optim::SgdConfig::new().init();
            let builder = builder(replicas, 2, 1).schedule_given(schedule.clone());
            builder.train(lynx_tests::gpts::gpt(&config), optimizer)
        };
        for (replicas, schedule, words) in [
            (2, &plain, "stage 0 never does G1"),
            (1, &reduced, "stage 0 does G1, but there is one replica"),
        ] {
            match with(replicas, schedule).map(drop) {
                Err(BuildError::Schedule(error)) => {
                    assert!(error.to_string().starts_with(words), "{error}");
                }
                other => panic!("{other:?}"),
            }
        }
        let batches = batches(&config, 4, 4);
        let mut by_hand = with(2, &reduced).expect("it fits");
        let mut by_kind = trainer(&config, builder(2, 2, 1));
        let (_, found) = backward(&mut by_hand, &batches);
        let (_, expected) = backward(&mut by_kind, &batches);
        assert_same_bytes("by hand", &found, &expected);
        let error = by_hand
            .backward(batches[..2].to_vec())
            .expect_err("one for each");
        assert!(
            error.to_string().contains("1 micro-batches for each"),
            "{error}"
        );
    });
}

#[test]
fn a_slow_link_between_replicas_takes_its_time_and_changes_no_bit() {
    alone(|| {
        let config = config(2, 0.1);
        let batches = batches(&config, 4, 4);
        let mut quick = trainer(&config, builder(2, 1, 1));
        let (_, expected) = backward(&mut quick, &batches);
        let speed: LinkSpeed = "2MB/s,1ms".parse().expect("a speed");
        let mut slow = trainer(&config, builder(2, 1, 1).replica_link(speed));
        let (report, found) = backward(&mut slow, &batches);
        assert_same_bytes("slow", &found, &expected);
        let gradients = found
            .values()
            .map(|data| data.as_bytes().len() as u64)
            .sum();
        let least = Link::from(speed).all_reduce_time(Bytes(gradients), 2);
        for stage in &report.stages {
            assert!(stage.times.reduction >= least, "{stage:?} {least}");
        }
    });
}
