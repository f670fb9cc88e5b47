//! What ranks cannot share is refused, and a rank that fails ends every thread and is named.

mod building;
mod panics;
mod sums;

use std::time::{Duration, Instant};

use burn::optim::SgdConfig;
use burn::prelude::*;
use lynx_burn::ids::{RankId, StageId};
use lynx_burn::{MicroBatch, StageFailure, TrainError, Trainer, TrainerBuilder};
use lynx_tests::shares::{Shares, SharesSpec, Trouble, Troubled};
use lynx_tests::watchdog::{alone, stage_threads};

/// How long a rank may stand still, where none should: who waits for one that failed must not come
/// to that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Within what a failure must be there, on a machine that others use too.
const BOUND: Duration = Duration::from_secs(20);

fn device() -> Device {
    Device::flex().autodiff()
}

/// Two layers, eight segments: at p = 2 the last four are on stage 1.
fn troubled(segment: usize, rank: Option<usize>, trouble: Trouble) -> SharesSpec {
    let mut spec = SharesSpec::new(2);
    spec.troubled = Some(Troubled {
        segment,
        rank,
        micro_batch: 1,
        trouble,
    });
    spec
}

fn trainer(spec: &SharesSpec, stages: usize, policy: &str, stall: Duration) -> Trainer<Shares> {
    TrainerBuilder::new()
        .stages(stages)
        .ranks(2)
        .policy(policy.parse().expect("a policy"))
        .stall_timeout(stall)
        .train(spec.init(&device()), SgdConfig::new().init())
        .expect("it fits")
}

fn batches(spec: &SharesSpec, count: usize) -> Vec<MicroBatch<Shares>> {
    (0..count).map(|_| spec.batch(4, &device())).collect()
}

/// How a step of three micro-batches fails: in time, and with the trainer over.
fn failure(spec: &SharesSpec, stages: usize, policy: &str) -> StageFailure {
    let mut trainer = trainer(spec, stages, policy, PATIENCE);
    let begin = Instant::now();
    let error = trainer.step(0.1, batches(spec, 3)).expect_err("a failure");
    assert!(begin.elapsed() < BOUND, "{:?}", begin.elapsed());
    let again = trainer.step(0.1, batches(spec, 3)).expect_err("over");
    assert!(matches!(again, TrainError::Ended), "{again}");
    match error {
        TrainError::Stage(failure) => *failure,
        other => panic!("not a stage's failure: {other}"),
    }
}

/// The stage and, if it was the doing of one alone, the rank.
fn assert_named(found: &StageFailure, stage: usize, rank: Option<usize>) {
    assert_eq!(found.stage, StageId(stage), "{found}");
    let named = found.rank.expect("one of two ranks");
    assert!(rank.is_none_or(|rank| named == RankId(rank)), "{found}");
}
