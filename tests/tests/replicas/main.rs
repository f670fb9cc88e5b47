//! Replicas of a pipeline that train together: what one replica would have done, on all of them.
//!
//! One test at a time: some count the threads of the process.

mod actions;
mod edges;
mod equal;
mod faults;
mod saves;

use std::collections::BTreeMap;
use std::sync::Mutex;

use burn::optim::AdamWConfig;
use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::model::Gpt;
use lynx_burn::plan::schedule::Action;
use lynx_burn::{ActionSpan, BackwardReport, MicroBatch, Observer, Trainer, TrainerBuilder};
use lynx_tests::gpts::gpt;

type Bytes = BTreeMap<String, TensorData>;

fn builder(replicas: usize, stages: usize, ranks: usize) -> TrainerBuilder {
    TrainerBuilder::new()
        .replicas(replicas)
        .stages(stages)
        .ranks(ranks)
        .seed(9)
}

fn trainer(config: &GptConfig, builder: TrainerBuilder) -> Trainer<Gpt> {
    let optimizer = AdamWConfig::new().with_weight_decay(0.1).init();
    builder.train(gpt(config), optimizer).expect("it fits")
}

fn backward(trainer: &mut Trainer<Gpt>, batches: &[MicroBatch<Gpt>]) -> (BackwardReport, Bytes) {
    let report = trainer.backward(batches.to_vec()).expect("a backward");
    (report, trainer.gradients().expect("gradients"))
}

/// Every action of every worker, in the order in which each ended.
#[derive(Default)]
struct Actions(Mutex<Vec<ActionSpan>>);

impl Observer for Actions {
    fn action(&self, span: &ActionSpan) {
        self.0.lock().expect("no panic inside").push(*span);
    }
}

impl Actions {
    /// What was told since the last time, as (replica, stage, rank) and action.
    fn take(&self) -> Vec<((usize, usize, usize), Action)> {
        let all = std::mem::take(&mut *self.0.lock().expect("no panic inside"));
        let all = all.into_iter().map(|span| {
            let who = (span.replica.0, span.stage.0, span.rank.0);
            (who, span.action)
        });
        all.collect()
    }
}
