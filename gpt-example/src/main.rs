//! The `gpt` command.

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use gpt_example::cli::Cli;
use gpt_example::train;
use tracing_subscriber::filter::LevelFilter;

/// Counts bytes, so that what each stage retains can be measured.
#[global_allocator]
static ALLOCATOR: lynx_burn::memory::TrackingAllocator = lynx_burn::memory::TrackingAllocator;

fn main() -> ExitCode {
    let level = std::env::var("RUST_LOG")
        .ok()
        .and_then(|level| level.parse().ok())
        .unwrap_or(LevelFilter::WARN);
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .init();
    let args = match Cli::read(std::env::args_os()) {
        Ok(args) => args,
        Err(asked)
            if matches!(
                asked.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            // Nobody may be reading; then there is nobody to tell.
            let _ = asked.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let text = error.to_string();
            // The rest is usage, which --help shows in full.
            eprintln!("{}", text.lines().next().unwrap_or("error"));
            return ExitCode::from(2);
        }
    };
    match train::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
