//! A process that runs a training step for every line it reads.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use gpt_example::config::Modules;
use gpt_example::model::Gpt;
use lynx_burn::{MicroBatch, Trainer};
use lynx_tests::oracle::Plain;

use super::problem::{LEARNING_RATE, batch, plain, trainer, write_weights};

/// How a model is trained.
enum Loop {
    /// As in Burn's book.
    Plain(Plain<Gpt>),
    /// On one stage, under a policy.
    Trainer(Trainer<Gpt>),
}

impl Loop {
    /// One step; the loss before it.
    fn step(&mut self, batch: &[MicroBatch<Gpt>]) -> Result<f64, Box<dyn std::error::Error>> {
        match self {
            Self::Plain(plain) => Ok(plain.step(LEARNING_RATE, batch)[0]),
            Self::Trainer(trainer) => Ok(trainer.step(LEARNING_RATE, batch.to_vec())?.loss()),
        }
    }
}

/// Does what the arguments say: `burn` or `fused` trains with such modules, a step for every line of the
/// input, and answers with its seconds and its loss; with a policy behind it, under that policy.
/// `weights FILE` writes the initial values.
///
/// # Errors
///
/// If the arguments are others, or a file or pipe fails.
pub fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut training = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["burn"] => Loop::Plain(plain(Modules::Burn)),
        ["fused"] => Loop::Plain(plain(Modules::Lynx)),
        ["fused", policy] => Loop::Trainer(trainer(Modules::Lynx, policy.parse()?)?),
        ["weights", path] => return write_weights(Path::new(path)),
        _ => return Err("arguments: burn, fused, fused POLICY, or weights FILE".into()),
    };
    let batch = batch();
    println!("ready");
    std::io::stdout().flush()?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let begin = Instant::now();
        let loss = training.step(&batch)?;
        let seconds = begin.elapsed().as_secs_f64();
        println!("{seconds} {loss}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
