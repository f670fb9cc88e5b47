//! `gpt plan` and `gpt simulate` as a user meets them.

mod common;

use std::fs;
use std::time::Duration;

use common::{gpt, json, refused, said};
use lynx_burn::plan::planner::{Plan, Strategy};
use serde_json::Value;

const SEVEN: &str = "plan --model 7b --cluster a100-40-pcie --tp 4 --pp 2 --micro-batch 4 \
                     --micro-batches 16";

#[test]
fn a_plan_is_told_compared_written_and_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments =
        format!("{SEVEN} --budget 38GiB --strategy heu --time-limit 500ms -o plan.json");
    let text = said(&gpt(folder.path(), &arguments));
    for strategy in Strategy::all(Duration::ZERO) {
        let of = |line: &str| line.split_whitespace().next() == Some(strategy.name());
        assert_eq!(text.lines().filter(|line| of(line)).count(), 1, "{text}");
    }
    for named in [
        "unlimited memory",
        "mlp-out",
        "in flight",
        "2 stages of 4 ranks",
    ] {
        assert!(text.contains(named), "{named}: {text}");
    }

    let path = folder.path().join("plan.json");
    let plan = Plan::read(&path).expect("a plan");
    assert_eq!(plan.layers().expect("its own").iter().sum::<usize>(), 32);
    let written = fs::read_to_string(&path).expect("written");
    assert_eq!(plan.to_json().expect("a plan"), written);

    let text = said(&gpt(
        folder.path(),
        "simulate plan.json --svg step.svg --trace step.json",
    ));
    assert!(
        !text.contains("the file says") && !text.contains("warning"),
        "{text}"
    );
    for named in ["bubble", "critical", "hidden B1", "peak"] {
        assert!(text.contains(named), "{named}: {text}");
    }
    let picture = fs::read_to_string(folder.path().join("step.svg")).expect("drawn");
    assert!(picture.starts_with("<svg") && picture.contains("budget: 38.0 GiB"));
    let trace = json(&folder.path().join("step.json"));
    assert!(
        trace["traceEvents"]
            .as_array()
            .is_some_and(|events| events.len() > 100)
    );
    // Nothing else is left behind.
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
}

#[test]
fn a_budget_that_is_too_small_is_exit_code_3_and_every_change_offered_fits() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        (
            format!("{SEVEN} --budget 12GiB"),
            vec!["--tp 8", "--pp 4", "--budget"],
        ),
        (
            format!("{SEVEN} --budget 20GiB --strategy none"),
            vec!["--strategy heu", "--budget"],
        ),
        (
            "plan --model 1.3b --cluster a100-40-nvlink --micro-batch 32 --pp 2 --budget 16GiB"
                .to_owned(),
            vec!["--micro-batch ", "--tp ", "--budget"],
        ),
        (
            "plan --model 1.3b --cluster a100-40-nvlink --pp 4 --micro-batch 4 --micro-batches 64 \
             --schedule gpipe --budget 12GiB"
                .to_owned(),
            vec!["--schedule 1f1b", "--micro-batches ", "--budget"],
        ),
    ];
    for (arguments, expected) in cases {
        let output = gpt(folder.path(), &format!("{arguments} -o plan.json"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments}: {error}");
        assert!(error.contains("stage "), "{error}");
        let bytes = error.split_once(" bytes)").expect("the bytes").0;
        let bytes = bytes.rsplit('(').next().expect("the bytes");
        let missing: u64 = bytes.parse().expect("a number of bytes");
        assert!(missing > 0, "{error}");
        assert!(
            !folder.path().join("plan.json").exists(),
            "no plan, no file"
        );
        // Options stand first in their line and end before two spaces.
        let offered = error.lines().filter_map(|line| line.strip_prefix("  "));
        let offered: Vec<&str> = offered.filter_map(|line| line.split("  ").next()).collect();
        for change in expected {
            let is_there = offered.iter().any(|options| options.starts_with(change));
            assert!(is_there, "{change}: {error}");
        }
        for options in offered {
            said(&gpt(
                folder.path(),
                &format!("{arguments} --no-compare {options}"),
            ));
        }
    }
}

#[test]
fn profiles_and_machines_from_files_give_the_same_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let how = "--pp 2 --micro-batches 16 --budget 30GiB --no-compare";
    let model = "--model 7b --cluster a100-40-pcie --tp 4 --micro-batch 4";
    let write = "--write-profile model.json --write-cluster machines.json -o one.json";
    said(&gpt(folder.path(), &format!("plan {model} {how} {write}")));
    let files = "--profile model.json --cluster machines.json";
    said(&gpt(
        folder.path(),
        &format!("plan {files} {how} -o other.json"),
    ));
    let plan = |name: &str| {
        let mut plan = json(&folder.path().join(name));
        // How long the search took is no decision.
        plan["search_ns"] = Value::Null;
        plan
    };
    assert_eq!(plan("one.json"), plan("other.json"));
}

#[test]
fn wrong_input_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    said(&gpt(
        folder.path(),
        &format!("{SEVEN} --budget 38GiB --no-compare -o plan.json"),
    ));
    fs::write(folder.path().join("broken.json"), "{\n  \"name\": 3,\n").expect("written");
    let mut absurd = json(&folder.path().join("plan.json"));
    absurd["setup"]["micro_batches"] = Value::from(1_u64 << 60);
    fs::write(folder.path().join("absurd.json"), absurd.to_string()).expect("written");
    let model = "plan --model 7b --cluster h200";
    let cases = [
        ("plan".to_owned(), "--model"),
        ("plan --model 7b".to_owned(), "--cluster"),
        ("plan --model 8b --cluster h200".to_owned(), "23b"),
        ("plan --model 7b --cluster h300".to_owned(), "ascend-910b"),
        (
            "plan --model 7b --cluster no.json".to_owned(),
            "cannot read no.json",
        ),
        ("plan --model 7b --cluster broken.json".to_owned(), "line 2"),
        (
            "plan --profile no.json --cluster h200".to_owned(),
            "cannot read no.json",
        ),
        (
            "plan --profile broken.json --cluster h200".to_owned(),
            "line 2",
        ),
        (format!("{model} --tp 3"), "heads is 32"),
        (format!("{model} --pp 33"), "33 stages"),
        (format!("{model} --pp 0"), "--pp"),
        (format!("{model} --tp 0"), "--tp"),
        (format!("{model} --micro-batch 0"), "--micro-batch"),
        (format!("{model} --micro-batches 0"), "--micro-batches"),
        (format!("{model} --sequence 0"), "--sequence"),
        (format!("{model} --budget 0"), "0 bytes"),
        (format!("{model} --budget lots"), "lots"),
        (format!("{model} --strategy luck"), "checkmate"),
        (format!("{model} --windows F9"), "F9"),
        (format!("{model} --schedule zb-h1"), "zb-h1"),
        (format!("{model} --time-limit soon"), "soon"),
        (format!("{model} --precision f8"), "f8"),
        (format!("{model} --attention divided"), "flash"),
        (format!("{model} -o nowhere/plan.json"), "nowhere/plan.json"),
        (format!("{model} --layers 3"), "--layers"),
        ("plan --measure --tp 3".to_owned(), "4 heads"),
        ("plan --measure --heads 3".to_owned(), "3 heads"),
        (
            "plan --measure --device cuda:0".to_owned(),
            "--features cuda",
        ),
        ("simulate".to_owned(), "PLAN"),
        ("simulate no.json".to_owned(), "cannot read no.json"),
        ("simulate broken.json".to_owned(), "line 2"),
        ("simulate absurd.json".to_owned(), "micro-batches"),
        ("simulate --schedule zigzag".to_owned(), "zigzag"),
        ("simulate --schedule 1f1b --pp 0".to_owned(), "--pp"),
        (
            "simulate --schedule interleaved:2 --micro-batches 6".to_owned(),
            "got 6",
        ),
        (
            "simulate --schedule 1f1b --pp 9999 --micro-batches 9999".to_owned(),
            "too many",
        ),
        ("simulate plan.json --pp 2".to_owned(), "--pp"),
    ];
    for (arguments, named) in cases {
        refused(folder.path(), &arguments, named);
    }
    let output = gpt(folder.path(), "simulate plan.json --svg nowhere/step.svg");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn any_kind_of_schedule_can_be_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    // A forward of 1 ms and a backward of 2 ms: 4 stages and 8 micro-batches take 8 * 3 ms, and
    // the ramps (p - 1) (f + b) = 9 ms, a half of it with two chunks (arXiv 2104.04473), and
    // (p - 1) f = 3 ms where weight gradients fill them (arXiv 2401.10241).
    let cases = [
        ("1f1b", "33.00 ms"),
        ("gpipe", "33.00 ms"),
        ("interleaved:2", "28.50 ms"),
        ("zb-h1", "27.00 ms"),
    ];
    for (kind, step) in cases {
        let arguments = format!("simulate --schedule {kind} --pp 4 --micro-batches 8 --svg a.svg");
        let text = said(&gpt(folder.path(), &arguments));
        assert!(
            text.contains(&format!("step      {step}")),
            "{kind}: {text}"
        );
        let picture = fs::read_to_string(folder.path().join("a.svg")).expect("drawn");
        assert!(picture.starts_with("<svg") && picture.contains(kind));
    }
}
