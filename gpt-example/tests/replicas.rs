//! `gpt train --replicas` as a user meets it.

mod common;

use std::fs;

use common::{gpt, json, losses, metrics, number, refused, said};
use lynx_burn::plan::planner::Plan;

const TINY: &str = "--layers 2 --width 32 --heads 2 --context 16 --batch 8 --micro-batches 4 \
                    --warmup 2 --log-every 1 --eval-batches 1 --sample 0 --dropout 0.1";

/// The first step has the same loss to the bit: it has learnt nothing yet.
fn assert_alike(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    assert_eq!(found[0], expected[0]);
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
}

#[test]
fn replicas_learn_what_one_does_and_a_run_says_that_there_are_several() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let train = |more: &str| said(&gpt(folder, &format!("train {TINY} --steps 5 {more}")));
    let text = train("--stages 2 --out one");
    assert!(!text.contains("replica"), "{text}");
    let text = train("--stages 2 --replicas 2 --replica-link 1GB/s,50us --out two");
    assert!(text.contains("2 replicas of 2 stages"), "{text}");
    let [one, two] = ["one", "two"].map(|name| folder.join(name));
    assert_alike(&losses(&two), &losses(&one));
    for record in metrics(&two) {
        let retained = record["retained_peak_bytes"].as_array().expect("a list");
        assert_eq!(retained.len(), 4);
        // All 12 segments of each micro-batch, as with one replica.
        assert_eq!(number(&record, "recomputed_segments"), 48.0);
    }
    let config = json(&two.join("config.json"));
    assert_eq!(config["options"]["overlap"]["replicas"], 2);
    let page = fs::read_to_string(two.join("report.html")).expect("written");
    assert!(page.contains("replica 1, stage 0") && page.contains("gradients over replicas"));
}

#[test]
fn a_run_goes_on_with_another_number_of_replicas() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let train = |more: &str| said(&gpt(folder, &format!("train {more}")));
    // A rate that does not fall: that of a run of 3 steps would fall sooner.
    let tiny = format!("{TINY} --learning-rate 3e-3 --min-learning-rate 3e-3");
    train(&format!("{tiny} --steps 6 --replicas 2 --out whole"));
    let whole = losses(&folder.join("whole"));
    for (number, replicas) in [(0, "--replicas 1"), (1, "--replicas 4"), (2, "")] {
        let run = format!("run{number}");
        let begin = "--steps 3 --replicas 2 --replica-link 1GB/s --out";
        train(&format!("{tiny} {begin} {run}"));
        let text = train(&format!("--resume {run} --steps 6 {replicas}"));
        let said = match number {
            0 => !text.contains("replicas of"),
            1 => text.contains("4 replicas of"),
            _ => text.contains("2 replicas of"),
        };
        assert!(said, "{text}");
        let found = losses(&folder.join(run));
        assert_alike(&found, &whole);
    }
    // A model is used alone, however many trained it.
    let text = said(&gpt(folder, "eval run1 --batch 3"));
    assert!(text.contains("nats a byte"), "{text}");
}

#[test]
fn numbers_that_do_not_divide_are_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, named) in [
        ("--replicas 0", "--replicas"),
        (
            "--replicas 3",
            "4 micro-batches cannot be dealt evenly to 3 replicas",
        ),
        ("--replicas 2 --micro-batches 3", "3 micro-batches"),
        ("--replica-link 1GB/s", "--replicas"),
        ("--replicas 2 --device flex,flex,flex", "3 devices"),
    ] {
        refused(folder.path(), arguments, named);
    }
}

/// A plan is one replica's, so it can be run with any number of them.
#[test]
fn a_memory_budget_is_planned_for_one_replica_and_the_plan_runs_with_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let how = "--stages 2 --link 1GB/s,100us --replicas 2 --replica-link 10MB/s,1ms";
    let train = format!("train {TINY} --steps 3 --one-core-each");
    said(&gpt(folder, &format!("{train} {how} --out plain")));
    let budget = "--memory-budget 1GiB --strategy full --out run";
    let text = said(&gpt(folder, &format!("{train} {how} {budget}")));
    assert!(text.contains("plan against"), "{text}");
    let run = folder.join("run");
    assert_eq!(losses(&run), losses(&folder.join("plain")));
    let plan = Plan::read(run.join("plan.json")).expect("a plan");
    assert_eq!(plan.setup.micro_batches, 2, "of each replica");
    assert_eq!(plan.setup.replicas.map(|replicas| replicas.count), Some(2));
    let text = said(&gpt(folder, "simulate run/plan.json --trace step.json"));
    assert!(text.contains("replicas"), "{text}");
    let trace = fs::read_to_string(folder.join("step.json")).expect("written");
    assert_eq!(
        trace.matches("\"cat\":\"reduction\"").count(),
        2,
        "a stage each"
    );

    let sizes = "--layers 2 --width 32 --heads 2 --context 16 --dropout 0.1 --warmup 2 --steps 3";
    let obey = format!("train {sizes} --eval-batches 1 --sample 0 --log-every 1");
    for (replicas, says, micro_batches) in [
        ("", "2 replicas of 2 stages", "4 micro-batches"),
        ("--replicas 1", "pipeline  2 stages", "2 micro-batches"),
        ("--replicas 3", "3 replicas of 2 stages", "6 micro-batches"),
    ] {
        let arguments = format!("{obey} --plan run/plan.json {replicas} --out again");
        let text = said(&gpt(folder, &arguments));
        assert!(
            text.contains(says) && text.contains(micro_batches),
            "{text}"
        );
    }
}
