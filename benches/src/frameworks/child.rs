//! A process that runs a training step for every line it reads.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use gpt_example::config::Modules;

use super::problem::{LEARNING_RATE, batch, plain, write_weights};

/// Does what the arguments say: `burn` or `fused` trains with such modules, a step for every line of the
/// input, and answers with its seconds and its loss; `weights FILE` writes the initial values.
///
/// # Errors
///
/// If the arguments are others, or a file or pipe fails.
pub fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let modules = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["burn"] => Modules::Burn,
        ["fused"] => Modules::Lynx,
        ["weights", path] => return write_weights(Path::new(path)),
        _ => return Err("arguments: burn, fused, or weights FILE".into()),
    };
    let (mut plain, batch) = (plain(modules), batch());
    for line in std::io::stdin().lock().lines() {
        line?;
        let begin = Instant::now();
        let losses = plain.step(LEARNING_RATE, &batch);
        let seconds = begin.elapsed().as_secs_f64();
        println!("{seconds} {}", losses[0]);
        std::io::stdout().flush()?;
    }
    Ok(())
}
