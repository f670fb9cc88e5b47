//! Every way to recompute, in real steps over emulated links: what `gpt bench` runs, left in
//! `benches/results`.
//!
//! `cargo bench -p lynx-benches --bench strategies [-- SETTING ..]`

use std::path::PathBuf;
use std::process::ExitCode;

use gpt_example::cli::BenchArgs;
use gpt_example::{allocator, bench};

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::new();

fn main() -> ExitCode {
    allocator::keep_freed_pages();
    // `cargo test --benches` asks for a list of tests; there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    // Cargo adds options of its own harness.
    let settings = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"));
    let args = BenchArgs {
        settings: settings.collect(),
        rounds: 11,
        sweep_rounds: 3,
        out: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results")),
    };
    match bench::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
