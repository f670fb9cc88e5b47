//! `gpt bench`: what each way to recompute costs in real steps.
//!
//! A [`Setting`] is a model, how many threads share it and how, and how much of a step without
//! recompute is communication over emulated links. On the [`Ground`] of a setting its segments are
//! measured, the links get their speed, and every strategy plans for the same budget. In a contest
//! all of them then train the same model on the same data, taking turns, after their gradients were
//! compared. Every stage and every rank computes on one core of its own.
//!
//! What comes out are times of this machine: only ratios within one contest mean something.

mod burn_alone;
mod contender;
mod contest;
mod error;
mod ground;
mod machine;
mod memory;
mod plot;
mod report;
mod row;
mod setting;
mod statistics;
mod sweep;

pub use error::BenchError;
pub use ground::Ground;
pub use machine::Machine;
pub use report::Results;
pub use row::Row;
pub use setting::{SETTINGS, Setting};
pub use statistics::quantile;
pub use sweep::{Cell, SHARES};

use crate::cli::BenchArgs;
use crate::progress::say;

/// Runs the settings and the sweep in a process of their own, and leaves `strategies.json`, `.md` and
/// pictures in a folder.
///
/// # Errors
///
/// If a setting is unknown, a plan or a run fails, gradients differ, or a file cannot be written.
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    match memory::in_own_process()? {
        None => run_here(args),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(BenchError::Failed(status)),
    }
}

fn run_here(args: &BenchArgs) -> Result<(), BenchError> {
    let folder = &args.out;
    std::fs::create_dir_all(folder).map_err(|error| BenchError::Folder {
        path: folder.clone(),
        error,
    })?;
    let mut results = Results::new(Machine::here(), args);
    for setting in setting::named(&args.settings)? {
        say(format_args!("{}: {}", setting.name, setting.about));
        let ground = Ground::measure(&setting)?;
        let (rows, timelines) = contest::hold(&ground, args.rounds)?;
        for row in &rows {
            say(format_args!("  {row}"));
        }
        results.add(&ground, rows);
        report::write_timelines(folder, &setting, &timelines)?;
    }
    if args.sweep_rounds > 0 {
        say(format_args!("sweep: communication by budget"));
        results.sweep = sweep::run(args.sweep_rounds, |cell| say(format_args!("  {cell}")))?;
    }
    results.write(folder)?;
    say(format_args!("written to {}", folder.display()));
    Ok(())
}
