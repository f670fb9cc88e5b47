//! `gpt train --plan` as a user meets it.

mod common;

use std::fs;

use common::{gpt, json, losses, metrics, number, refused, said};
use lynx_burn::plan::planner::Plan;
use serde_json::Value;

const SEVEN: &str = "plan --model 7b --cluster a100-40-pcie --tp 4 --pp 2 --micro-batch 4 \
                     --micro-batches 16";
/// The sizes of a model that is measured and trained within a second.
const TINY: &str = "--layers 4 --width 32 --heads 2 --context 16";

#[test]
fn a_measured_plan_trains_and_recomputes_what_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan =
        format!("plan --measure {TINY} --pp 2 --micro-batches 4 --micro-batch 2 -o plan.json");
    let train = format!(
        "train --plan plan.json {TINY} --steps 2 --warmup 0 --log-every 1 --eval-batches 1 \
         --sample 0 --out run"
    );
    // A little less than what it takes to recompute nothing.
    said(&gpt(
        folder.path(),
        &format!("{plan} --strategy none --no-compare"),
    ));
    let plain = Plan::read(folder.path().join("plan.json")).expect("a plan");
    let peaks = plain.stages.iter().map(|stage| stage.predicted.peak.0);
    let tight = format!("--budget {}", peaks.max().expect("a stage") / 100 * 97);
    let budgets = ["--strategy full", tight.as_str(), "--strategy selective"];
    let mut all = Vec::new();
    for budget in budgets {
        let text = said(&gpt(
            folder.path(),
            &format!("{plan} {budget} --no-compare"),
        ));
        assert!(text.contains("medians of 7 rounds"), "{text}");
        let path = folder.path().join("plan.json");
        let planned = recomputed(&Plan::read(&path).expect("a plan"));
        assert!(planned > 0, "{text}");
        said(&gpt(folder.path(), &train));
        let records = metrics(&folder.path().join("run"));
        for record in &records {
            assert_eq!(
                number(record, "recomputed_segments"),
                planned as f64,
                "{budget}"
            );
        }
        all.push(losses(&folder.path().join("run")));

        // With more in flight than 1F1B asks for, the same is computed in another order.
        let mut deeper = json(&path);
        deeper["setup"]["extra_in_flight"] = serde_json::json!([1, 1]);
        fs::write(&path, deeper.to_string()).expect("written");
        said(&gpt(folder.path(), &train));
        all.push(losses(&folder.path().join("run")));
    }
    assert!(all.iter().all(|run| *run == all[0]), "{all:?}");
}

#[test]
fn a_plan_for_ranks_and_links_trains_with_both_and_hides_what_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let links = "--collective-link 100MB/s,500us --one-core-each";
    let how = "--micro-batches 4 --micro-batch 2 --no-compare -o plan.json";
    said(&gpt(
        folder,
        &format!("plan --measure {TINY} --tp 2 {links} {how}"),
    ));
    let plan = Plan::read(folder.join("plan.json")).expect("a plan");
    assert_eq!(plan.setup.profile.tensor_parallel, 2);
    assert!(plan.step.hidden.0 > 0, "it costs nothing there");
    let run = "--steps 3 --warmup 0 --log-every 1 --eval-batches 1 --sample 0 --batch 8";
    let train = format!("train {TINY} {run}");
    let retain = format!("{train} --tp 2 --stages 1 --policy retain {links} --out plain");
    said(&gpt(folder, &retain));
    let planned = format!("{train} --plan plan.json --out planned");
    let text = said(&gpt(folder, &format!("{planned} {links}")));
    assert!(!text.contains("note"), "{text}");
    let records = |name: &str| metrics(&folder.join(name));
    assert_eq!(
        losses(&folder.join("planned")),
        losses(&folder.join("plain"))
    );
    for record in records("planned") {
        assert!(number(&record, "hidden_s") > 0.0, "{record}");
        let segments = recomputed(&plan) as f64;
        // Each of the ranks recomputes them.
        assert_eq!(number(&record, "recomputed_segments"), 2.0 * segments);
    }
    // Over faster links the same is computed, and the difference is told.
    let text = said(&gpt(folder, &planned));
    assert!(text.contains("see --collective-link"), "{text}");
    assert_eq!(
        losses(&folder.join("planned")),
        losses(&folder.join("plain"))
    );
}

/// Segments that a step recomputes.
fn recomputed(plan: &Plan) -> u64 {
    let layers = plan.stages.iter().flat_map(|stage| stage.plan.by_layer());
    let choices = layers.flat_map(|group| &group.choices);
    let segments = choices.filter(|choice| choice.is_recomputed()).count();
    segments as u64 * plan.setup.micro_batches
}

#[test]
fn a_plan_that_a_run_cannot_obey_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = format!("plan --measure {TINY} --pp 2 --micro-batch 2 --no-compare -o plan.json");
    said(&gpt(folder.path(), &plan));
    said(&gpt(
        folder.path(),
        &format!("{SEVEN} --no-compare --budget 38GiB -o seven.json"),
    ));
    let mut absurd = json(&folder.path().join("plan.json"));
    absurd["setup"]["profile"]["tokens"] = Value::from(1_u64 << 40);
    fs::write(folder.path().join("absurd.json"), absurd.to_string()).expect("written");
    let cases = [
        ("--plan plan.json --layers 3", "4 layers"),
        ("--plan seven.json", "32 layers"),
        (
            "--plan seven.json --layers 32 --heads 2 --width 32",
            "4 ranks",
        ),
        (
            "--plan seven.json --layers 32 --heads 4 --width 32",
            "another model",
        ),
        ("--plan plan.json --stages 2", "--stages"),
        ("--plan plan.json --tp 2", "--tp"),
        ("--plan plan.json --policy retain", "--policy"),
        ("--plan plan.json --schedule gpipe", "--schedule"),
        ("--plan plan.json --micro-batches 4", "--micro-batches"),
        (
            "--plan plan.json --layers-per-stage 2,2",
            "--layers-per-stage",
        ),
        ("--plan plan.json --context 16 --batch 4", "a batch of 8"),
        ("--plan plan.json --context 12", "32 tokens"),
        ("--plan missing.json", "missing.json"),
        ("--plan absurd.json", "a batch of"),
    ];
    for (arguments, named) in cases {
        refused(folder.path(), &format!("train {arguments}"), named);
    }
}
