//! What a person sees of a run.
//!
//! On a terminal a bar moves with each step and a line stays for each evaluation; elsewhere, in a
//! log say, every logged step is a line.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

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
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of a run of so many steps.
    pub fn new(steps: u64) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps);
            let template = "{bar:24} {pos}/{len}  {msg}  {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        Self { bar }
    }

    /// A step was taken.
    pub fn step(&self, record: &Record) {
        if let Some(bar) = &self.bar {
            bar.set_position(record.step);
            bar.set_message(facts(record));
        }
    }

    /// A step was logged.
    pub fn log(&self, record: &Record) {
        let line = format!("step {:>5}  {}", record.step, facts(record));
        match &self.bar {
            None => say(line),
            Some(bar) if record.val_loss.is_some() => bar.suspend(|| say(line)),
            Some(_) => {}
        }
    }

    /// Something happened that is no step.
    pub fn say(&self, line: impl fmt::Display) {
        match &self.bar {
            None => say(line),
            Some(bar) => bar.suspend(|| say(line)),
        }
    }

    /// The last step was taken.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
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
