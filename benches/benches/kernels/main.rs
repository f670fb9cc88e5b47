//! The fused operations of a GPT layer on the CPU, against the same functions of Burn's operations.
//!
//! Values and gradients are compared before anything is timed; the two take turns. A gradient comes
//! in through a product with a constant, so both backward times contain that product and a sum.

mod compare;
mod pairs;
mod report;
mod slices;
mod yardsticks;

use burn::prelude::*;
use lynx_benches::machine::Machine;
use lynx_burn::memory::TrackingAllocator;
use serde::Serialize;

use compare::{Growth, Row, compare, growth, layer_speedup};
use pairs::pairs;
use slices::{Kernel, attention_kernel, layer_norm_kernel};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

const ROUNDS: usize = 15;
const BATCH: usize = 8;
const SEQ: usize = 256;
const WIDTH: usize = 256;
const HEADS: usize = 8;
const CLASSES: usize = 256;
const DROP: f64 = 0.1;

#[derive(Serialize)]
struct Results {
    machine: Machine,
    rounds: usize,
    copy_gb_per_s: f64,
    matmul_gflop_per_s: f64,
    operations: Vec<Row>,
    /// Burn's time for a layer's operations over ours: forward, backward and both.
    layer_speedup: [f64; 3],
    kernels: Vec<Kernel>,
    attention_memory: Vec<Growth>,
}

fn main() {
    // `cargo test --benches` asks for a list of tests; there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let operations: Vec<Row> = pairs(DROP).into_iter().map(compare).collect();
    let results = Results {
        machine: Machine::here(),
        rounds: ROUNDS,
        copy_gb_per_s: yardsticks::copy(),
        matmul_gflop_per_s: yardsticks::matmul(),
        layer_speedup: layer_speedup(&operations),
        operations,
        kernels: vec![layer_norm_kernel(), attention_kernel()],
        attention_memory: [128, 256, 512, 1024].map(growth).into(),
    };
    let text = report::markdown(&results);
    print!("{text}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let json = serde_json::to_string_pretty(&results).expect("plain numbers") + "\n";
    std::fs::write(format!("{folder}/kernels.json"), json).expect("a file for results");
    std::fs::write(format!("{folder}/kernels.md"), text).expect("a file for results");
}

fn device() -> Device {
    Device::flex().autodiff()
}
