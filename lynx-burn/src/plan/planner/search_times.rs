//! How long planning takes for the GPT models. Prints, and asserts nothing: run it by hand with
//! `cargo test --release --no-default-features --lib search_times -- --ignored --nocapture`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::heu::Heu;
use super::outcome::{Outcome, Planner};
use super::partition::Dealer;
use super::plan::Plan;
use super::problem::StageProblem;
use super::setup::Setup;
use crate::plan::cluster::Cluster;
use crate::plan::profile::{Gpt, GptSize, ModelProfile};

const PRESETS: [&str; 5] = [
    "a100-40-nvlink",
    "a100-40-pcie",
    "a100-80-nvlink",
    "h100-nvlink",
    "ascend-910b",
];

/// Every combination of a preset, ranks and a size of micro-batch, with a name for it.
fn profiles(size: &str) -> Vec<(String, Cluster, ModelProfile)> {
    let mut all = Vec::new();
    for preset in PRESETS {
        for ranks in [1, 2, 4, 8] {
            for sequences in [1, 2, 4] {
                let cluster: Cluster = preset.parse().unwrap();
                let mut gpt = Gpt::new(size.parse().unwrap());
                (gpt.tensor_parallel, gpt.micro_batch) = (ranks, sequences);
                let Ok(profile) = gpt.profile(&cluster.device) else {
                    continue;
                };
                let name = format!("{size} {preset} tp {ranks} mb {sequences}");
                all.push((name, cluster, profile));
            }
        }
    }
    all
}

/// HEU, and how often it is asked.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Planner for Counted {
    fn name(&self) -> &str {
        "heu"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        self.0.fetch_add(1, Ordering::Relaxed);
        Heu::default().plan(problem)
    }

    fn needs_more_for_more_layers(&self) -> bool {
        true
    }
}

type Times = Vec<(Duration, String)>;

fn print(what: &str, mut times: Times) {
    times.sort();
    let (middle, count) = (&times[times.len() / 2], times.len());
    let over = |limit: u64| {
        let limit = Duration::from_millis(limit);
        times.iter().filter(|(time, _)| *time > limit).count()
    };
    println!(
        "{what}: {count} times, median {:?}, over 5/30/50 ms: {}/{}/{}",
        middle.0,
        over(5),
        over(30),
        over(50)
    );
    for (time, name) in times.iter().rev().take(6) {
        println!("  {time:?} {name}");
    }
}

#[test]
#[ignore = "measures"]
fn one_stage() {
    let mut times = Vec::new();
    let mut sum = [0_usize; 3];
    for size in GptSize::NAMES {
        for (name, cluster, profile) in profiles(size) {
            let stages = 8;
            let setup = Setup::new(&profile, &cluster, stages, 16);
            let share = profile.layer_count() / stages;
            for stage in [0, 1, 4, 7] {
                let problem = setup.problem(stage, 0..share).unwrap();
                let began = Instant::now();
                let outcome = Heu::default().plan(&problem);
                times.push((began.elapsed(), format!("{name} stage {stage}")));
                match outcome {
                    Outcome::Feasible(found) if found.cost.exposed.0 == 0 => sum[0] += 1,
                    Outcome::Feasible(_) => sum[1] += 1,
                    _ => sum[2] += 1,
                }
            }
        }
    }
    println!("{sum:?} with nothing exposed, something, infeasible");
    print("one stage of eight", times);
}

/// The deal, and the deal with the simulation of its plan.
fn plan(name: &str, setup: &Setup, deals: &mut Times, plans: &mut Times) {
    let heu = Counted::default();
    let began = Instant::now();
    let found = Dealer::new(setup, &heu).unwrap().exact();
    let found = found.map_or("no deal".to_owned(), |deal| format!("{deal:?}"));
    let took = began.elapsed();
    let asked = heu.0.into_inner();
    deals.push((took, format!("{name} {found}, {asked} searches")));
    let began = Instant::now();
    let step = Plan::new(setup, &Heu::default()).map(|plan| plan.step.time.0);
    plans.push((began.elapsed(), format!("{name} {:?}", step.ok())));
}

#[test]
#[ignore = "measures"]
fn whole_plans() {
    let (mut deals, mut plans) = (Vec::new(), Vec::new());
    for (name, cluster, profile) in profiles("23b") {
        for micro_batches in [16, 64] {
            let setup = Setup::new(&profile, &cluster, 8, micro_batches);
            let name = format!("{name} m {micro_batches}");
            plan(&name, &setup, &mut deals, &mut plans);
        }
    }
    print("23b on eight stages, deal", deals);
    print("23b on eight stages, simulated plan", plans);
}

#[test]
#[ignore = "measures"]
fn many_layers() {
    let (mut deals, mut plans) = (Vec::new(), Vec::new());
    for (name, cluster, mut profile) in profiles("7b") {
        profile.layers[0].count = 512;
        let setup = Setup::new(&profile, &cluster, 64, 128);
        plan(&name, &setup, &mut deals, &mut plans);
    }
    print("512 layers on 64 stages, deal", deals);
    print("512 layers on 64 stages, simulated plan", plans);
}
