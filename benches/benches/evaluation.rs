//! The paper's evaluation, simulated: every strategy in every setting in which memory binds.
//!
//! Writes `results/evaluation.{json,md,svg}`. It takes some minutes, most of them OPT's and
//! Checkmate's.

use std::path::Path;

use lynx_benches::evaluation::run::{binds, compare};
use lynx_benches::evaluation::{plot, report, settings};
use lynx_benches::machine::Machine;
use rayon::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = settings::all(binds);
    println!("{} settings in which memory binds", settings.len());
    // OPT is slow: one setting for each model and cluster.
    let mut seen = Vec::new();
    let jobs: Vec<_> = settings
        .iter()
        .map(|setting| {
            let place = (setting.model, setting.cluster);
            let is_first = setting.setup.stages > 1 && !seen.contains(&place);
            if is_first {
                seen.push(place);
            }
            (setting, is_first)
        })
        .collect();
    let all: Vec<_> = jobs
        .par_iter()
        .map(|(setting, with_opt)| compare(setting, *with_opt))
        .collect();
    let rows: Vec<_> = all.iter().flat_map(|compared| &compared.rows).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(
        folder.join("evaluation.json"),
        serde_json::to_string(&rows)?,
    )?;
    let text = report::markdown(&all, &Machine::here().line());
    println!("{text}");
    std::fs::write(folder.join("evaluation.md"), text)?;
    plot::draw(&all, &folder.join("evaluation.svg"))
}
