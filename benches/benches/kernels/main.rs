//! The fused operations of a GPT layer on the CPU, against the same functions of Burn's operations.
//!
//! Values and gradients are compared before anything is timed; the two take turns. A gradient comes
//! in through a product with a constant, so both backward times contain that product and a sum.

mod compare;
mod products;
mod recompute;
mod report;
mod turn;
mod yardsticks;

use gpt_example::allocator;
use lynx_benches::machine::Machine;
use lynx_benches::twins::slices::{Attention, LayerNorm};
use lynx_benches::twins::{
    DROP, SEQ, attention, cross_entropy, dropout_add, dropout_add_drawn, gelu, layer_norm,
};
use lynx_burn::kernels::gelu::Form;
use serde::Serialize;

use compare::{Growth, Row, compare, growth, layer_speedup};
use products::{Product, products};
use recompute::{Kernel, kernel};

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::new();

const ROUNDS: usize = 15;

#[derive(Serialize)]
struct Results {
    machine: Machine,
    rounds: usize,
    copy_gb_per_s: f64,
    matmul_gflop_per_s: f64,
    operations: Vec<Row>,
    /// Burn's time for a layer's operations over ours: forward, backward and both.
    layer_speedup: [f64; 3],
    products: Vec<Product>,
    kernels: Vec<Kernel>,
    attention_memory: Vec<Growth>,
}

fn main() {
    // `cargo test --benches` asks for a list of tests; there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    // Both sides would mostly measure the kernel's page faults otherwise.
    allocator::keep_freed_pages();
    let operations: Vec<Row> = [
        (layer_norm(), 2.0),
        (gelu(Form::Erf), 1.0),
        (dropout_add(), 2.0),
        (dropout_add_drawn(), 0.0),
        (cross_entropy(), 0.0),
        (attention(SEQ, 0.0), 1.0),
        (attention(SEQ, DROP), 0.0),
    ]
    .into_iter()
    .map(|(pair, in_layer)| compare(pair, in_layer))
    .collect();
    let results = Results {
        machine: Machine::here(),
        rounds: ROUNDS,
        copy_gb_per_s: yardsticks::copy(),
        matmul_gflop_per_s: yardsticks::matmul(),
        layer_speedup: layer_speedup(&operations),
        operations,
        products: products(),
        kernels: vec![
            kernel("layer norm", LayerNorm::default()),
            kernel("attention", Attention::new(false)),
        ],
        attention_memory: [128, 256, 512, 1024].map(growth).into(),
    };
    let text = report::markdown(&results);
    print!("{text}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let json = serde_json::to_string_pretty(&results).expect("plain numbers") + "\n";
    std::fs::write(format!("{folder}/kernels.json"), json).expect("a file for results");
    std::fs::write(format!("{folder}/kernels.md"), text).expect("a file for results");
}
