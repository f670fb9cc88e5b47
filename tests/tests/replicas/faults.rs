//! A replica that fails ends every thread of all of them, and is named.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use burn::optim::SgdConfig;
use burn::prelude::*;
use lynx_burn::ids::{MicroBatchId, RankId, ReplicaId, StageId};
use lynx_burn::{Cause, MicroBatch, Pass, StageFailure, TrainError, Trainer, TrainerBuilder};
use lynx_tests::shares::{Shares, SharesSpec, Trouble, Troubled};
use lynx_tests::watchdog::{alone, stage_threads};

/// How long a worker may stand still where none should.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where one does.
const STALL: Duration = Duration::from_millis(500);
/// Within what a failure must be there, on a machine that others use too.
const BOUND: Duration = Duration::from_secs(20);
/// Of each replica, of which there are two.
const EACH: usize = 2;

/// Micro-batch 1 of a replica goes wrong in segment 5 of 8, on rank 1 if there are two.
fn troubled(replica: usize, ranks: usize, trouble: Trouble) -> SharesSpec {
    let mut spec = SharesSpec::new(2);
    spec.troubled = Some(Troubled {
        segment: 5,
        rank: (ranks > 1).then_some(1),
        micro_batch: replica * EACH + 1,
        trouble,
    });
    spec
}

fn trainer(
    spec: &SharesSpec,
    (stages, ranks): (usize, usize),
    policy: &str,
    stall: Duration,
) -> Trainer<Shares> {
    TrainerBuilder::new()
        .replicas(2)
        .stages(stages)
        .ranks(ranks)
        .policy(policy.parse().expect("a policy"))
        .stall_timeout(stall)
        .train(
            spec.init(&Device::flex().autodiff()),
            SgdConfig::new().init(),
        )
        .expect("it fits")
}

fn batches(spec: &SharesSpec) -> Vec<MicroBatch<Shares>> {
    let device = Device::flex().autodiff();
    (0..2 * EACH).map(|_| spec.batch(4, &device)).collect()
}

/// How a step fails: in time.
fn failure(trainer: &mut Trainer<Shares>, spec: &SharesSpec) -> StageFailure {
    let begin = Instant::now();
    let error = trainer.step(0.1, batches(spec)).expect_err("a failure");
    assert!(begin.elapsed() < BOUND, "{:?}", begin.elapsed());
    match error {
        TrainError::Stage(failure) => *failure,
        other => panic!("not a stage's failure: {other}"),
    }
}

fn assert_named(found: &StageFailure, replica: usize, (stages, ranks): (usize, usize)) {
    assert_eq!(found.replica, Some(ReplicaId(replica)), "{found}");
    assert_eq!(found.stage, StageId(stages - 1), "{found}");
    assert_eq!(found.rank, (ranks > 1).then_some(RankId(1)), "{found}");
    assert_eq!(found.place.micro_batch, Some(MicroBatchId(1)), "{found}");
    let begin = format!("replica {replica}, stage {}", stages - 1);
    assert!(found.to_string().starts_with(&begin), "{found}");
}

#[test]
fn a_panic_of_one_replica_ends_all_and_says_whose_it_was() {
    alone(|| {
        for (trouble, policy, pass) in [
            (Trouble::InForward, "retain", Pass::Forward),
            (Trouble::InRecompute, "recompute", Pass::Recompute),
            (Trouble::InBackward, "retain", Pass::Backward),
        ] {
            for cut in [(1, 1), (2, 1), (2, 2)] {
                for replica in [0, 1] {
                    let spec = troubled(replica, cut.1, trouble.clone());
                    let mut trainer = trainer(&spec, cut, policy, PATIENCE);
                    let found = failure(&mut trainer, &spec);
                    assert_named(&found, replica, cut);
                    assert_eq!(found.place.pass, Some(pass), "{found}");
                    assert!(matches!(found.cause, Cause::Panic(_)), "{found}");
                    assert_eq!(stage_threads(), 0, "every thread has ended");
                    let again = trainer.step(0.1, batches(&spec)).expect_err("over");
                    assert!(matches!(again, TrainError::Ended), "{again}");
                }
            }
        }
    });
}

/// The others come to the sum of gradients and wait there.
#[test]
fn a_replica_that_stalls_is_named_and_not_the_one_that_waits_for_it() {
    alone(|| {
        for cut in [(1, 1), (2, 2)] {
            for replica in [0, 1] {
                let (gate, receiver) = mpsc::channel::<()>();
                let stall = Trouble::Stall(Arc::new(Mutex::new(receiver)));
                let spec = troubled(replica, cut.1, stall);
                let mut trainer = trainer(&spec, cut, "retain", STALL);
                let found = failure(&mut trainer, &spec);
                assert_named(&found, replica, cut);
                assert!(matches!(found.cause, Cause::Stalled(_)), "{found}");
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
