//! How long planning takes: one stage, a whole plan, and a whole strategy.
//!
//! Every item is timed in each of several rounds; what is reported are the medians over rounds, and
//! over items their median and the slowest. Writes `results/search.{json,md}`.

use std::path::Path;
use std::time::{Duration, Instant};

use lynx_benches::machine::Machine;
use lynx_burn::plan::cluster::Cluster;
use lynx_burn::plan::planner::{Heu, Plan, Planner, Setup, StageProblem, Strategy};
use lynx_burn::plan::profile::{Gpt, GptSize};
use serde::Serialize;

const ROUNDS: usize = 3;
const MODELS: [&str; 6] = ["1.3b", "4.7b", "7b", "13b", "20b", "23b"];
const PRESETS: [&str; 5] = [
    "a100-40-nvlink",
    "a100-40-pcie",
    "a100-80-nvlink",
    "h100-nvlink",
    "ascend-910b",
];
const MICRO_BATCHES: [u64; 2] = [16, 64];

/// The times of one kind of search.
#[derive(Serialize)]
struct Row {
    what: String,
    items: usize,
    median_ms: f64,
    slowest_ms: f64,
    slowest: String,
    aim: &'static str,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let heu = Heu::default();
    let stages = stage_problems();
    let mut rows = vec![times(
        "HEU, one stage (every model, preset and degree; p = 8)",
        "median <= 1 ms",
        &stages,
        |problem| drop(heu.plan(problem)),
    )];
    let pipelines = setups("23b", 8);
    rows.push(times(
        "plan: partition, policies, schedule, simulation; 23b, p = 8",
        "<= 50 ms",
        &pipelines,
        |setup| drop(Plan::new(setup, &heu)),
    ));
    rows.push(times(
        "strategy `heu`: that, forwards that run ahead, rivals; 23b, p = 8",
        "",
        &pipelines,
        |setup| {
            let strategy = Strategy::named("heu", Duration::from_secs(1));
            drop(strategy.map(|heu| heu.plan(setup)));
        },
    ));
    rows.push(times(
        "plan: 512 layers of 13b's width, p = 64",
        "<= 2 s",
        &deep(),
        |setup| drop(Plan::new(setup, &heu)),
    ));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(
        folder.join("search.json"),
        serde_json::to_string_pretty(&rows)?,
    )?;
    let text = markdown(&rows);
    println!("{text}");
    std::fs::write(folder.join("search.md"), text)?;
    Ok(())
}

/// Times every item, whether it has a plan or not.
fn times<T>(what: &str, aim: &'static str, items: &[(String, T)], search: impl Fn(&T)) -> Row {
    let mut all = vec![Vec::with_capacity(ROUNDS); items.len()];
    for _ in 0..ROUNDS {
        for ((_, item), times) in items.iter().zip(&mut all) {
            let began = Instant::now();
            search(item);
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    let mut medians: Vec<(f64, &str)> = items
        .iter()
        .zip(&mut all)
        .map(|((name, _), times)| {
            times.sort_by(f64::total_cmp);
            (times[ROUNDS / 2], name.as_str())
        })
        .collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = medians.get(medians.len() / 2);
    let last = medians.last();
    Row {
        what: what.to_owned(),
        items: items.len(),
        median_ms: middle.map_or(f64::NAN, |m| m.0),
        slowest_ms: last.map_or(f64::NAN, |m| m.0),
        slowest: last.map_or(String::new(), |m| m.1.to_owned()),
        aim,
    }
}

/// A model on every preset with every degree and size of micro-batch.
fn setups(model: &str, stages: usize) -> Vec<(String, Setup)> {
    let mut all = Vec::new();
    for preset in PRESETS {
        for ranks in [1, 2, 4, 8] {
            for samples in [1, 2, 4] {
                for micro_batches in MICRO_BATCHES {
                    let Ok(size) = model.parse::<GptSize>() else {
                        continue;
                    };
                    let setup = setup(size, preset, (ranks, stages), samples, micro_batches);
                    let name =
                        format!("{model} {preset} tp {ranks} mb {samples} m {micro_batches}");
                    all.extend(setup.map(|setup| (name, setup)));
                }
            }
        }
    }
    all
}

fn setup(
    size: GptSize,
    preset: &str,
    (ranks, stages): (u64, usize),
    samples: u64,
    micro_batches: u64,
) -> Option<Setup> {
    let cluster: Cluster = preset.parse().ok()?;
    let mut gpt = Gpt::new(size);
    (gpt.tensor_parallel, gpt.micro_batch) = (ranks, samples);
    let profile = gpt.profile(&cluster.device).ok()?;
    Some(Setup::new(&profile, &cluster, stages, micro_batches))
}

/// Every stage of even deals.
fn stage_problems() -> Vec<(String, StageProblem)> {
    let mut all = Vec::new();
    for model in MODELS {
        for (name, setup) in setups(model, 8) {
            let layers = setup.profile.layer_count() / 8;
            for stage in [0, 3, 7] {
                let own = stage * layers..(stage + 1) * layers;
                let problem = setup.problem(stage, own).ok();
                all.extend(problem.map(|problem| (format!("{name} stage {stage}"), problem)));
            }
        }
    }
    all
}

/// A very deep model on very many stages.
fn deep() -> Vec<(String, Setup)> {
    let mut all = Vec::new();
    for preset in PRESETS {
        for ranks in [1, 8] {
            let Ok(mut size) = "13b".parse::<GptSize>() else {
                continue;
            };
            size.layers = 512;
            let setup = setup(size, preset, (ranks, 64), 1, 256);
            all.extend(setup.map(|setup| (format!("{preset} tp {ranks}"), setup)));
        }
    }
    all
}

fn markdown(rows: &[Row]) -> String {
    let mut text = format!(
        "# Search times\n\nMeasured on: {}. Medians over {ROUNDS} rounds. HEU against OPT is in \
         [evaluation.md](evaluation.md).\n\n\
         | search | items | median | slowest | which | aim |\n| --- | --- | --- | --- | --- | --- |\n",
        Machine::here().line()
    );
    for row in rows {
        text += &format!(
            "| {} | {} | {:.3} ms | {:.1} ms | {} | {} |\n",
            row.what, row.items, row.median_ms, row.slowest_ms, row.slowest, row.aim
        );
    }
    text
}
