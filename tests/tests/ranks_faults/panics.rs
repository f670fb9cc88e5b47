//! A rank that panics or stands still, wherever it does (case 21).

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use lynx_burn::ids::{MicroBatchId, SegmentId};
use lynx_burn::{Cause, Pass};
use lynx_tests::shares::Trouble;

use super::{BOUND, alone, assert_named, batches, failure, stage_threads, trainer, troubled};

/// How long a rank may stand still where one does.
const STALL: Duration = Duration::from_millis(500);

/// Stages, the troubled segment, and its stage: in front of a sum and behind one.
const PLACES: [(usize, usize, usize); 5] = [(1, 0, 0), (1, 5, 0), (2, 1, 0), (2, 4, 1), (2, 7, 1)];

fn panics(trouble: &Trouble, policies: &[&str], pass: Pass, says: &str) {
    for policy in policies {
        for (stages, segment, stage) in PLACES {
            for rank in [0, 1] {
                let spec = troubled(segment, Some(rank), trouble.clone());
                let found = failure(&spec, stages, policy);
                assert_named(&found, stage, Some(rank));
                assert_eq!(found.place.pass, Some(pass), "{policy}: {found}");
                assert_eq!(found.place.micro_batch, Some(MicroBatchId(1)), "{found}");
                let text = found.to_string();
                let begin = format!("stage {stage}, rank {rank} failed at micro-batch 1, ");
                assert!(text.starts_with(&begin), "{text}");
                assert!(
                    matches!(&found.cause, Cause::Panic(text) if text.contains(says)),
                    "{policy}: {found}"
                );
                // A tape of several retained segments is told by the last of them.
                let named = found.place.segment.expect("inside a segment").0;
                let last = if pass == Pass::Backward {
                    segment | 1
                } else {
                    segment
                };
                assert!((segment..=last).contains(&named), "{policy}: {found}");
                assert_eq!(stage_threads(), 0, "every thread has ended");
            }
        }
    }
}

#[test]
fn a_panic_of_one_rank_in_a_forward_ends_all_and_says_whose_it_was() {
    alone(|| {
        let policies = ["retain", "recompute", "uniform:1"];
        panics(&Trouble::InForward, &policies, Pass::Forward, "injected");
    });
}

#[test]
fn a_panic_of_one_rank_in_a_recompute_ends_all_and_says_whose_it_was() {
    alone(|| {
        let policies = ["recompute", "every:1", "uniform:1", "uniform:2"];
        panics(
            &Trouble::InRecompute,
            &policies,
            Pass::Recompute,
            "injected",
        );
    });
}

#[test]
fn a_panic_of_one_rank_in_a_backward_ends_all_and_says_whose_it_was() {
    alone(|| {
        let policies = ["retain", "recompute", "uniform:1"];
        panics(&Trouble::InBackward, &policies, Pass::Backward, "Lanczos3");
    });
}

#[test]
fn the_rank_that_stalls_is_named_and_not_the_one_that_waits_for_it() {
    alone(|| {
        for (stages, segment, stage) in PLACES {
            for rank in [0, 1] {
                let (gate, receiver) = mpsc::channel::<()>();
                let stall = Trouble::Stall(Arc::new(Mutex::new(receiver)));
                let spec = troubled(segment, Some(rank), stall);
                let mut trainer = trainer(&spec, stages, "retain", STALL);
                let begin = Instant::now();
                let error = trainer.step(0.1, batches(&spec, 3)).expect_err("it stalls");
                assert!(begin.elapsed() < BOUND, "{:?}", begin.elapsed());
                let lynx_burn::TrainError::Stage(found) = error else {
                    panic!("{error}");
                };
                assert_named(&found, stage, Some(rank));
                assert!(matches!(found.cause, Cause::Stalled(_)), "{found}");
                assert_eq!(found.place.segment, Some(SegmentId(segment)), "{found}");
                assert_eq!(found.place.micro_batch, Some(MicroBatchId(1)), "{found}");
                assert_eq!(stage_threads(), 1, "only the stuck thread is left");
                // It ends by itself as soon as the model lets go.
                drop(gate);
                while stage_threads() > 0 {
                    std::thread::yield_now();
                }
            }
        }
    });
}
