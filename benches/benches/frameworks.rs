//! A training step of a GPT: Burn's modules, the fused ones, with the system's allocator and with the
//! example's, and PyTorch.
//!
//! PyTorch takes part if `LYNX_PYTHON` names an interpreter that has it. All begin with the same
//! parameters and train on the same batch; their losses are compared in every step.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lynx_benches::frameworks::peer::Peer;
use lynx_benches::frameworks::problem::{BATCH, CONFIG};
use lynx_benches::machine::Machine;
use lynx_benches::rounds::{Timing, table, timings};
use serde::Serialize;

/// Steps before the first that counts: allocators and caches settle.
const WARM_UP: usize = 3;
const ROUNDS: usize = 25;
/// How far losses of the same step may be apart, as a share. Rounding differs, and a step multiplies it.
const TOLERANCE: f64 = 2e-3;

#[derive(Serialize)]
struct Results {
    machine: Machine,
    model: String,
    rounds: usize,
    steps: Vec<Timing>,
    /// Of each variant, in the order of `steps`: what its process grew to at most above what it was
    /// before its first step. Nothing where the system does not tell.
    grown_bytes: Vec<Option<u64>>,
    /// Of each variant, in the order of `steps`.
    tokens_per_second: Vec<f64>,
    /// The largest difference of a step's losses, as a share.
    loss_difference: f64,
    losses: [f64; 2],
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `cargo test --benches` asks for a list of tests; there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    let weights = std::env::temp_dir().join(format!("lynx-frameworks-{}", std::process::id()));
    let outcome = measure(&weights);
    std::fs::remove_file(&weights)?;
    let results = outcome?;
    let text = markdown(&results);
    print!("{text}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let json = serde_json::to_string_pretty(&results)? + "\n";
    std::fs::write(format!("{folder}/frameworks.json"), json)?;
    std::fs::write(format!("{folder}/frameworks.md"), text)?;
    Ok(())
}

fn peers(weights: &Path) -> Result<Vec<Peer>, Box<dyn std::error::Error>> {
    let (system, mimalloc) = (
        env!("CARGO_BIN_EXE_step_system"),
        env!("CARGO_BIN_EXE_step_mimalloc"),
    );
    let written = Command::new(system).arg("weights").arg(weights).status()?;
    if !written.success() {
        return Err(format!("no weights were written: {written}").into());
    }
    let ours = |name, program, modules: &[&str]| {
        let mut peer = Peer::start(name, Command::new(program).args(modules))?;
        peer.line().map(|_ready| peer)
    };
    let mut peers = vec![
        ours("Burn's modules", system, &["burn"])?,
        ours("Burn's modules, mimalloc", mimalloc, &["burn"])?,
        ours("fused modules", system, &["fused"])?,
        ours("fused modules, mimalloc", mimalloc, &["fused"])?,
        ours(
            "the same, every layer recomputed",
            mimalloc,
            &["fused", "uniform:1"],
        )?,
    ];
    if let Some(python) = std::env::var_os("LYNX_PYTHON") {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/pytorch/gpt.py");
        for (recompute, name) in [(None, ""), (Some("checkpoint"), ", every layer recomputed")] {
            let mut command = Command::new(&python);
            command.arg(script).arg(weights).args(recompute);
            let mut peer = Peer::start("PyTorch", &mut command)?;
            let line = peer.line()?;
            let (version, threads) = line.split_once(' ').unwrap_or((&line, "unknown"));
            peer.name = format!("PyTorch {version}, {threads} threads{name}");
            peers.push(peer);
        }
    }
    Ok(peers)
}

fn measure(weights: &Path) -> Result<Results, Box<dyn std::error::Error>> {
    let mut peers = peers(weights)?;
    let mut times = vec![Vec::new(); peers.len()];
    // Each answers once it has its parameters: a step is asked for then.
    let at_rest: Vec<_> = peers.iter().map(Peer::memory).collect();
    let (mut loss_difference, mut losses) = (0f64, Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let mut expected = None;
        for offset in 0..peers.len() {
            // Begin with another one each time: being first may be a handicap.
            let index = (round + offset) % peers.len();
            let step = peers[index].step()?;
            let expected = *expected.get_or_insert(step.loss);
            let difference = (step.loss / expected - 1.0).abs();
            if difference.is_nan() || difference > TOLERANCE {
                let (name, loss) = (&peers[index].name, step.loss);
                return Err(
                    format!("round {round}: {name} has loss {loss}, not {expected}").into(),
                );
            }
            loss_difference = loss_difference.max(difference);
            if round >= WARM_UP {
                times[index].push(Duration::from_secs_f64(step.seconds));
            }
        }
        losses.extend(expected);
    }
    let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
    let steps = timings(&names, &times);
    let tokens = (BATCH * CONFIG.context) as f64;
    Ok(Results {
        machine: Machine::here(),
        model: format!("{CONFIG:?}, batch {BATCH}"),
        rounds: ROUNDS,
        tokens_per_second: steps
            .iter()
            .map(|t| tokens * 1e3 / t.step_ms_median)
            .collect(),
        steps,
        grown_bytes: peers
            .iter()
            .zip(at_rest)
            .map(|(peer, before)| Some(peer.memory()?[1].saturating_sub(before?[0])))
            .collect(),
        loss_difference,
        losses: [losses[0], losses[losses.len() - 1]],
    })
}

fn markdown(results: &Results) -> String {
    let speeds: Vec<String> = results
        .tokens_per_second
        .iter()
        .map(|speed| format!("{speed:.0}"))
        .collect();
    let grown: Vec<String> = results
        .grown_bytes
        .iter()
        .map(|bytes| match bytes {
            Some(bytes) => format!("{}", bytes >> 20),
            None => "unknown".to_owned(),
        })
        .collect();
    let mut text = format!(
        "# A training step, and PyTorch's\n\nMeasured on: {}. GPT: {}, AdamW, each \
         variant a process, {} rounds in which they take turns, after {WARM_UP}. \
         The machine is shared: trust the ratios, which are taken within a round.\n\n\
         All begin with the same parameters and see the same batch. Losses fall from {:.4} to \
         {:.4}, those of a step at most {:.1e} apart.\n\n{}\nTokens a second, in this order: {}. MiB that the process grew \
         by from before its first step to its largest moment, the optimizer's state and all gradients \
         among them: {}.\n",
        results.machine.line(),
        results.model,
        results.rounds,
        results.losses[0],
        results.losses[1],
        results.loss_difference,
        table(&results.steps),
        speeds.join(", "),
        grown.join(", "),
    );
    if !results
        .steps
        .iter()
        .any(|step| step.variant.starts_with("PyTorch"))
    {
        text += "\nPyTorch did not take part: `LYNX_PYTHON` named no interpreter.\n";
    }
    text
}
