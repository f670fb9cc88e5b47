//! `gpt train --memory-budget`, ranks and overlap as a user meets them.

mod common;

use std::path::Path;

use common::{gpt, losses, metrics, number, refused, said};
use lynx_burn::plan::planner::Plan;
use lynx_burn::units::{Bytes, Nanos};
use serde_json::Value;

/// Large enough that every tensor counts, small enough for a second or two.
const SMALL: &str = "--layers 3 --width 64 --heads 4 --context 32";
/// Steps whose losses are compared.
const RUN: &str = "--batch 16 --micro-batches 4 --warmup 0 --log-every 1 --eval-batches 1 \
                   --sample 0 --one-core-each";

/// Stages and ranks, with the links between them.
const CUTS: [&str; 3] = [
    "--stages 1 --tp 2 --collective-link 100MB/s,500us",
    "--stages 2 --link 100MB/s,2ms",
    "--stages 2 --tp 2 --link 100MB/s,1ms --collective-link 200MB/s,300us",
];

/// A budget that something must be recomputed for: what full recompute needs, and a twentieth.
fn tight(folder: &Path, cut: &str) -> u64 {
    let cut = cut.replace("--stages", "--pp");
    let how = "--micro-batch 4 --micro-batches 4 --strategy full --no-compare -o full.json";
    let text = format!("plan --measure {SMALL} {cut} --one-core-each {how}");
    said(&gpt(folder, &text));
    let plan = Plan::read(folder.join("full.json")).expect("a plan");
    let peaks = plan.stages.iter().map(|stage| stage.predicted.peak.0);
    peaks.max().expect("a stage") / 20 * 21
}

#[test]
fn within_a_budget_recompute_is_hidden_memory_is_as_planned_and_losses_are_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for cut in CUTS {
        let budget = tight(folder, cut);
        let train = format!("train {SMALL} {RUN} --steps 6 {cut}");
        said(&gpt(
            folder,
            &format!("{train} --policy retain --out plain"),
        ));
        let plain = losses(&folder.join("plain"));
        assert_eq!(plain.len(), 6);
        for overlap in ["planned", "never", "opportunistic"] {
            let text = said(&gpt(
                folder,
                &format!("{train} --memory-budget {budget} --overlap {overlap} --out run"),
            ));
            let run = folder.join("run");
            assert_eq!(losses(&run), plain, "{cut} {overlap}");
            for named in [
                "medians of 7 rounds",
                "strategy  heu",
                "plan against",
                "ratio",
            ] {
                assert!(text.contains(named), "{named}: {text}");
            }
            let plan = Plan::read(run.join("plan.json")).expect("a plan");
            assert_eq!(plan.setup.budget, Bytes(budget));
            let records = metrics(&run);
            let sum = |name| records.iter().map(|r| number(r, name)).sum::<f64>();
            assert!(sum("recomputed_segments") > 0.0, "{cut}: {text}");
            match overlap {
                "never" => assert_eq!(sum("hidden_s"), 0.0, "{cut}"),
                // In a pipeline forwards that run ahead may leave nothing to hide.
                "planned" if plan.step.hidden == Nanos::ZERO => {}
                _ => assert!(sum("hidden_s") > 0.0, "{cut} {overlap}: {text}"),
            }
            check_retained(&plan, &records, overlap);
            let rows = text
                .lines()
                .filter(|line| line.starts_with("activations, stage"));
            let ratios: Vec<&str> = rows
                .filter_map(|row| row.split_whitespace().last())
                .collect();
            assert_eq!(ratios.len(), plan.stages.len(), "{text}");
            if overlap == "never" {
                assert!(
                    ratios.iter().all(|&ratio| ratio == "1.00"),
                    "as rehearsed: {text}"
                );
            }
        }
    }
}

/// What every rank of every stage retained, against what was planned, or what the budget leaves.
fn check_retained(plan: &Plan, records: &[Value], overlap: &str) {
    let planned = plan.activations().expect("its own setup");
    let mut allowed: Vec<u64> = planned.iter().map(|bytes| bytes.0).collect();
    if overlap == "opportunistic" {
        for (allowed, problem) in allowed.iter_mut().zip(plan.problems().expect("its own")) {
            *allowed = (*allowed).max(problem.room().0);
        }
    }
    let ranks = plan.setup.profile.tensor_parallel;
    let boundaries = plan.setup.profile.segments().map(|s| s.boundary.0);
    let boundary = boundaries.max().unwrap_or(0);
    for record in records {
        let retained = record["retained_peak_bytes"].as_array().expect("a list");
        assert_eq!(retained.len(), allowed.len() * ranks);
        for (worker, bytes) in retained.iter().enumerate() {
            let (bytes, stage) = (bytes.as_u64().expect("bytes"), worker / ranks);
            // What is on its way between stages and ranks, one in and one out, is nobody's in a plan:
            // a rehearsal has it.
            let limit = allowed[stage] + 2 * boundary;
            assert!(bytes <= limit, "{overlap} {worker}: {bytes} of {limit}");
        }
    }
}

#[test]
fn a_budget_below_what_is_possible_is_exit_code_3_and_what_is_offered_fits() {
    let folder = tempfile::tempdir().expect("a folder");
    let train = format!("train {SMALL} {RUN} --steps 1 --stages 1 --out run");
    let output = gpt(folder.path(), &format!("{train} --memory-budget 300KiB"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains("stage 0 is") && error.contains("short"),
        "{error}"
    );
    let files = std::fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(files.count(), 0, "nothing is written");
    let offered = error.lines().filter_map(|line| line.strip_prefix("  "));
    let offered: Vec<&str> = offered.filter_map(|line| line.split("  ").next()).collect();
    let more = offered
        .iter()
        .find(|one| one.starts_with("--memory-budget"));
    let more = more.expect("more memory is one way");
    said(&gpt(folder.path(), &format!("{train} {more}")));
}

#[test]
fn planning_again_between_steps_changes_no_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let one_rank = ["--stages 1"];
    for cut in one_rank.iter().chain(&CUTS) {
        let train = format!("train {SMALL} {RUN} --steps 9 {cut} --memory-budget 10MiB");
        let text = said(&gpt(
            folder,
            &format!("{train} --replan-every 0 --out kept"),
        ));
        assert!(!text.contains("planned again"), "{text}");
        // No step takes exactly as long as planned.
        let forced = "--replan-above 0 --replan-every 5 --out replanned";
        let text = said(&gpt(folder, &format!("{train} {forced}")));
        assert!(text.contains("planned again"), "{cut}: {text}");
        assert_eq!(
            losses(&folder.join("kept")),
            losses(&folder.join("replanned")),
            "{cut}"
        );
    }
}

#[test]
fn a_planned_run_that_is_gone_on_with_is_planned_for_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let train = format!("train {SMALL} {RUN} --stages 1 --memory-budget 10MiB");
    said(&gpt(folder, &format!("{train} --steps 4 --out whole")));
    said(&gpt(
        folder,
        &format!("{train} --steps 4 --save-every 2 --keep 2 --out broken"),
    ));
    let first = folder.join("broken/saves/000001-step-2");
    assert!(first.is_dir(), "the save after two steps");
    let resume = format!("train --resume {} --out rest", first.display());
    let text = said(&gpt(folder, &resume));
    assert!(text.contains("strategy  heu"), "{text}");
    assert_eq!(
        losses(&folder.join("rest")),
        losses(&folder.join("whole"))[2..]
    );
    let text = said(&gpt(folder, &format!("{resume} --policy retain")));
    assert!(!text.contains("strategy  heu"), "{text}");
}

#[test]
fn options_that_make_no_sense_together_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        ("--tp 3", "4 heads"),
        ("--tp 0", "--tp"),
        ("--heads 128 --tp 512", "128 heads"),
        ("--tp 2 --device flex,flex,flex", "3 devices"),
        ("--collective-link 1GB/s", "--tp"),
        ("--overlap planned", "--memory-budget"),
        ("--overlap now", "now"),
        ("--strategy full", "--memory-budget"),
        ("--memory-budget much", "much"),
        ("--memory-budget 1GiB --policy retain", "--policy"),
        ("--memory-budget 1GiB --plan p.json", "--plan"),
        ("--memory-budget 1GiB --replan-above -1", "--replan-above"),
        ("--memory-budget 1GiB --stages 9", "9 stages"),
        (
            "--memory-budget 1GiB --schedule interleaved:2",
            "interleaved",
        ),
    ];
    for (arguments, named) in cases {
        refused(folder.path(), &format!("train {arguments}"), named);
    }
}
