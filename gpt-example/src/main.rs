//! The `gpt` command.

use std::process::ExitCode;

use clap::error::ErrorKind;
use gpt_example::cli::{Cli, Task, TokenizerCommand, completions, one_line};
use gpt_example::dashboard::quiet::Stderr;
use gpt_example::error::RunError;
use gpt_example::{allocator, bench, evaluate, export, generate, plan, simulate, tokenizer, train};
use tracing_subscriber::filter::LevelFilter;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::new();

fn main() -> ExitCode {
    allocator::keep_freed_pages();
    let level = std::env::var("RUST_LOG")
        .ok()
        .and_then(|level| level.parse().ok())
        .unwrap_or(LevelFilter::WARN);
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Stderr)
        .init();
    let task = match Cli::read(std::env::args_os()) {
        Ok(task) => task,
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
            eprintln!("{}", one_line(&error));
            return ExitCode::from(2);
        }
    };
    let done = match task {
        Task::Train(args) => train::run(&args),
        Task::Generate(args) => generate::run(&args),
        Task::Eval(args) => evaluate::run(&args),
        Task::Export(args) => export::run(&args),
        Task::Tokenizer(args) => match args.command {
            TokenizerCommand::Train(args) => tokenizer::learn::run(&args),
        },
        Task::Plan(args) => plan::run(&args).map_err(RunError::from),
        Task::Simulate(args) => simulate::run(&args).map_err(RunError::from),
        Task::Bench(args) => bench::run(&args).map_err(RunError::from),
        Task::Completions(args) => {
            completions(&args);
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
