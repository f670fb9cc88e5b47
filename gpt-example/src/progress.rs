//! What a person sees of a run.
//!
//! On a terminal a bar moves with each step and a line stays for each evaluation, or there is a
//! dashboard, and those lines are written when it is closed; elsewhere, in a log say, every logged
//! step is a line.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use crate::dashboard::DashboardError;
#[cfg(feature = "tui")]
use crate::dashboard::{Board, Course};
use crate::metrics::Record;

/// Writes a line to standard output.
///
/// Unlike `println!` it does not panic when nobody reads any more (`gpt | head -1`): the run folder
/// has it all.
pub fn say(line: impl fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Reports steps.
#[derive(Debug)]
pub struct Progress(Kind);

#[derive(Debug)]
enum Kind {
    Lines,
    Bar(ProgressBar),
    #[cfg(feature = "tui")]
    Board {
        board: Box<Board>,
        /// Said behind it, however it ends: fields are dropped in order.
        lines: Kept,
    },
}

/// Lines that are said when this is dropped.
#[cfg(feature = "tui")]
#[derive(Debug, Default)]
struct Kept(Vec<String>);

#[cfg(feature = "tui")]
impl Drop for Kept {
    fn drop(&mut self) {
        self.0.iter().for_each(say);
    }
}

impl Progress {
    /// Of a run of so many steps.
    pub fn new(steps: u64) -> Self {
        if !io::stderr().is_terminal() {
            return Self(Kind::Lines);
        }
        let bar = ProgressBar::new(steps);
        let template = "{bar:24} {pos}/{len}  {msg}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(Kind::Bar(bar))
    }

    /// On Burn's dashboard.
    ///
    /// # Errors
    ///
    /// If there is no terminal.
    #[cfg(feature = "tui")]
    pub fn dashboard(course: Course) -> Result<Self, DashboardError> {
        Ok(Self(Kind::Board {
            board: Box::new(Board::open(course)?),
            lines: Kept::default(),
        }))
    }

    /// A step was taken.
    ///
    /// # Errors
    ///
    /// If somebody chose on the dashboard to end the run at once.
    pub fn step(&mut self, record: &Record) -> Result<(), DashboardError> {
        match &mut self.0 {
            Kind::Lines => {}
            Kind::Bar(bar) => {
                bar.set_position(record.step);
                bar.set_message(facts(record));
            }
            #[cfg(feature = "tui")]
            Kind::Board { board, .. } => board.step(record)?,
        }
        Ok(())
    }

    /// A step was logged.
    pub fn log(&mut self, record: &Record) {
        if matches!(self.0, Kind::Lines) || record.val_loss.is_some() {
            self.say(format_args!("step {:>5}  {}", record.step, facts(record)));
        }
    }

    /// Something happened that is no step.
    pub fn say(&mut self, line: impl fmt::Display) {
        match &mut self.0 {
            Kind::Lines => say(line),
            Kind::Bar(bar) => bar.suspend(|| say(line)),
            #[cfg(feature = "tui")]
            Kind::Board { lines, .. } => lines.0.push(line.to_string()),
        }
    }

    /// Whether somebody asked on the dashboard for the run to end.
    pub fn asked_to_end(&self) -> bool {
        match &self.0 {
            Kind::Lines | Kind::Bar(_) => false,
            #[cfg(feature = "tui")]
            Kind::Board { board, .. } => board.asked(),
        }
    }

    /// No step follows.
    ///
    /// # Errors
    ///
    /// If somebody chose on the dashboard to end the run at once.
    pub fn finish(self) -> Result<(), DashboardError> {
        match self.0 {
            Kind::Lines => {}
            Kind::Bar(bar) => bar.finish_and_clear(),
            #[cfg(feature = "tui")]
            Kind::Board { board, lines } => {
                let closed = board.close();
                drop(lines);
                closed?;
            }
        }
        Ok(())
    }
}

fn facts(record: &Record) -> String {
    let evaluated = match record.val_loss {
        Some(loss) => format!("  validation {loss:.4}"),
        None => String::new(),
    };
    format!(
        "loss {:.4}{evaluated}  {:.0} tokens/s  retained {} MiB",
        record.train_loss,
        record.tokens_per_s,
        mebibytes(&record.retained_peak_bytes),
    )
}

/// Bytes of each stage: `3.2 + 1.7`.
fn mebibytes(stages: &[u64]) -> String {
    let stages: Vec<String> = stages
        .iter()
        .map(|&bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20)))
        .collect();
    stages.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_loss_and_each_stages_bytes() {
        let record = Record {
            step: 3,
            train_loss: 2.5,
            val_loss: Some(2.25),
            tokens_per_s: 1234.4,
            retained_peak_bytes: vec![3 << 20, 3 << 19],
            step_s: 0.5,
            exposed_s: 0.0,
            hidden_s: 0.0,
            recomputed_segments: 0,
            learning_rate: 1e-3,
            gradient_norm: None,
            applied: true,
            elapsed_s: 1.0,
        };
        assert_eq!(
            facts(&record),
            "loss 2.5000  validation 2.2500  1234 tokens/s  retained 3.0 + 1.5 MiB"
        );
    }
}
