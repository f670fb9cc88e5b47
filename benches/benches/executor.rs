//! What the executor costs: against a plain Burn loop, with recomputation, and in a pipeline.
//!
//! Every variant's gradients are compared with plain Burn's, byte for byte, before anything is
//! timed. The pipeline is measured in a process of its own whose matrix products use one thread,
//! so that two stages have one core each and one stage has one core too.

use std::process::Command;

use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::data::micro_batches;
use gpt_example::model::Gpt;
use lynx_benches::machine::Machine;
use lynx_benches::rounds::{Timing, Variant, table, take_turns};
use lynx_burn::memory::{TrackingAllocator, live_bytes, peak_bytes, reset_peak};
use lynx_burn::plan::policy::Policy;
use lynx_burn::{MicroBatch, Trainer, TrainerBuilder};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes};
use serde::{Deserialize, Serialize};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

const ROUNDS: usize = 31;
const MICRO_BATCHES: usize = 4;
const BATCH: usize = 8;
const SEED: u64 = 1;
const LEARNING_RATE: f64 = 1e-4;
const CONFIG: GptConfig = GptConfig {
    layers: 4,
    d_model: 128,
    heads: 4,
    context: 128,
    vocabulary: 256,
    dropout: 0.1,
    ..GptConfig::NANO
};

/// The policies that are compared, by their name in the table.
const POLICIES: [(&str, Policy); 2] = [
    ("executor, retain all", Policy::RetainAll),
    ("executor, recompute all", Policy::RecomputeAll),
];

/// What a variant holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Memory {
    variant: String,
    /// Boundaries and tapes, by the ledger, summed over stages.
    retained_peak_bytes: Option<u64>,
    /// Everything above what is there between steps, at the allocator.
    allocator_peak_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Results {
    machine: Machine,
    model: String,
    rounds: usize,
    micro_batches: usize,
    executor: Vec<Timing>,
    memory: Vec<Memory>,
    pipeline_one_core_each: Vec<Timing>,
}

fn main() {
    // `cargo test --benches` asks for a list of tests; there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    if std::env::args().any(|argument| argument == "--one-core-each") {
        let timings = pipeline();
        println!(
            "{}",
            serde_json::to_string(&timings).expect("plain numbers")
        );
        return;
    }
    let (executor, memory) = executor();
    let results = Results {
        machine: Machine::here(),
        model: format!("{CONFIG:?}, batch {BATCH}"),
        rounds: ROUNDS,
        micro_batches: MICRO_BATCHES,
        executor,
        memory,
        pipeline_one_core_each: in_own_process(),
    };
    let text = markdown(&results);
    print!("{text}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    std::fs::create_dir_all(folder).expect("a folder for results");
    let json = serde_json::to_string_pretty(&results).expect("plain numbers") + "\n";
    std::fs::write(format!("{folder}/executor.json"), json).expect("a file for results");
    std::fs::write(format!("{folder}/executor.md"), text).expect("a file for results");
}

/// One stage against a hand-written loop.
fn executor() -> (Vec<Timing>, Vec<Memory>) {
    let batches = batches();
    let mut plain = plain();
    let mut trainers: Vec<(&str, Trainer<Gpt>)> = POLICIES
        .into_iter()
        .map(|(name, policy)| (name, trainer(1, policy, &batches)))
        .collect();
    let mut memory = vec![memory("plain Burn loop", || {
        plain.step(LEARNING_RATE, &batches);
        None
    })];
    for (name, trainer) in &mut trainers {
        memory.push(self::memory(name, || {
            let report = trainer
                .step(LEARNING_RATE, batches.clone())
                .expect("a step");
            Some(report.backward.retained_peak().0)
        }));
    }
    let mut variants = vec![Variant {
        name: "plain Burn loop",
        run: Box::new(|| {
            plain.step(LEARNING_RATE, &batches);
        }),
    }];
    for (name, trainer) in &mut trainers {
        let batches = &batches;
        variants.push(Variant {
            name,
            run: Box::new(|| {
                trainer
                    .step(LEARNING_RATE, batches.clone())
                    .expect("a step");
            }),
        });
    }
    (take_turns(variants, ROUNDS), memory)
}

/// Two stages with a core each against one stage with one core.
fn pipeline() -> Vec<Timing> {
    let batches = batches();
    let mut trainers: Vec<(String, Trainer<Gpt>)> = Vec::new();
    for (name, policy) in POLICIES {
        for stages in [1, 2] {
            let name = name.replace("executor", &format!("p = {stages}"));
            trainers.push((name, trainer(stages, policy.clone(), &batches)));
        }
    }
    let variants = trainers
        .iter_mut()
        .map(|(name, trainer)| Variant {
            name,
            run: Box::new(|| {
                trainer
                    .step(LEARNING_RATE, batches.clone())
                    .expect("a step");
            }),
        })
        .collect();
    take_turns(variants, ROUNDS)
}

fn in_own_process() -> Vec<Timing> {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .arg("--one-core-each")
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .expect("this program again");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("timings")
}

/// A warm step's memory.
fn memory(variant: &str, mut step: impl FnMut() -> Option<u64>) -> Memory {
    step();
    let before = live_bytes();
    reset_peak();
    let retained_peak_bytes = step();
    Memory {
        variant: variant.to_owned(),
        retained_peak_bytes,
        allocator_peak_bytes: peak_bytes().saturating_sub(before),
    }
}

fn model() -> Gpt {
    Gpt::new(&CONFIG, SEED, &Device::flex().autodiff()).expect("a valid configuration")
}

fn plain() -> Plain<Gpt> {
    Plain::new(model(), optimizer(), SEED)
}

fn optimizer() -> ModuleOptimizer {
    AdamWConfig::new().init()
}

/// A trainer whose gradients are plain Burn's.
///
/// The tied embedding is on both stages of a pipeline and is then added in another order, by
/// nature: it is compared at one stage only.
fn trainer(stages: usize, policy: Policy, batches: &[MicroBatch<Gpt>]) -> Trainer<Gpt> {
    let mut trainer = TrainerBuilder::new()
        .stages(stages)
        .policy(policy)
        .devices([Device::flex()])
        .seed(SEED)
        .train(model(), optimizer())
        .expect("it fits");
    let plain = plain();
    let step = plain.backward(batches);
    let report = trainer.backward(batches.to_vec()).expect("a backward");
    assert_eq!(report.losses, step.losses, "losses");
    let mut found = trainer.gradients().expect("gradients");
    let mut expected = gradient_bytes(&plain.model, &step.gradients);
    if stages > 1 {
        for path in trainer.tied_parameters() {
            found.remove(path);
            expected.remove(path);
        }
    }
    assert_same_bytes("gradients", &found, &expected);
    trainer.update(0.0).expect("an update");
    trainer
}

/// Text does not matter for speed: bytes in order.
fn batches() -> Vec<MicroBatch<Gpt>> {
    let text: Vec<u8> = (0..8192u32).map(|i| (i * 31 % 251) as u8).collect();
    let windows: Vec<usize> = (0..BATCH).map(|i| i * 997 % 7000).collect();
    let device = Device::flex();
    micro_batches(
        &text,
        &windows,
        CONFIG.context,
        MICRO_BATCHES,
        (&device, &device),
    )
}

fn markdown(results: &Results) -> String {
    let mut text = format!(
        "# Executor\n\nMeasured on: {}. GPT: {}. {} micro-batches a step, {} interleaved rounds \
         after one warm-up; every variant's gradients were compared with plain Burn's bytes first. \
         Machines are shared and noisy: trust the ratios, which are taken within a round.\n\n\
         ## One stage, all cores\n\n{}\n",
        results.machine.line(),
        results.model,
        results.micro_batches,
        results.rounds,
        table(&results.executor),
    );
    text += "## Memory of a step\n\n| variant | boundaries and tapes (ledger), peak | above rest at the allocator, peak |\n| --- | --- | --- |\n";
    for memory in &results.memory {
        let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64);
        text += &format!(
            "| {} | {} | {} |\n",
            memory.variant,
            memory.retained_peak_bytes.map_or("-".to_owned(), mib),
            mib(memory.allocator_peak_bytes),
        );
    }
    text + &format!(
        "\n## Two stages, each on one core\n\nIn a process with `RAYON_NUM_THREADS=1`, so a stage's \
         thread computes alone.\n\n{}",
        table(&results.pipeline_one_core_each)
    )
}
