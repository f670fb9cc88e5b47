//! Plan files that somebody has damaged or edited: read or refused, and used or refused, but never a
//! panic and never for long.

use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use super::*;
use crate::plan::planner::Replicas;
use crate::plan::planner::heu::Heu;
use crate::plan::profile::Gpt;

/// A plan of two stages, small enough to be read thousands of times.
fn plan() -> String {
    let cluster: cluster::Cluster = "a100-40-pcie".parse().unwrap();
    let mut gpt = Gpt::new("1.3b".parse().unwrap());
    gpt.tensor_parallel = 2;
    let profile = gpt.profile(&"a100-40-pcie".parse::<cluster::Cluster>().unwrap().device);
    let mut setup = Setup::new(&profile.unwrap(), &cluster, 2, 4);
    let link = Some(*cluster.pipeline_link(0, 1, 2));
    setup.replicas = Some(Replicas { count: 2, link });
    let plan = Plan::new(&setup, &Heu::default()).unwrap();
    plan.to_json().unwrap()
}

/// Reads a text and does everything that a plan is read for.
fn use_all(text: &str) {
    let Ok(plan) = Plan::from_json(text) else {
        return;
    };
    let _ = plan.layers();
    let _ = plan.activations();
    if let Ok(layout) = plan.setup.profile.layout() {
        let _ = plan.policy(&layout);
        let _ = plan.ahead(&layout);
    }
    if let Ok(forecast) = plan.forecast() {
        let _ = forecast.report();
    }
    let _ = plan.to_json();
}

/// The same, ended by force if it takes long.
fn use_all_soon(text: String) -> Result<(), TestCaseError> {
    let (done, result) = channel();
    let given = text.clone();
    let thread = std::thread::spawn(move || {
        use_all(&given);
        let _ = done.send(());
    });
    let waited = result.recv_timeout(Duration::from_secs(20));
    let over = thread.is_finished() || waited.is_ok();
    prop_assert!(over, "takes long: {text}");
    prop_assert!(thread.join().is_ok(), "panics: {text}");
    Ok(())
}

/// How many values there are that are no lists and no objects.
fn leaves(value: &Value) -> usize {
    match value {
        Value::Array(all) => all.iter().map(leaves).sum(),
        Value::Object(all) => all.values().map(leaves).sum(),
        _ => 1,
    }
}

/// Puts `new` in place of one of them.
fn replace(value: &mut Value, place: &mut usize, new: &Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|v| replace(v, place, new)),
        Value::Object(all) => all.values_mut().for_each(|v| replace(v, place, new)),
        leaf => {
            if *place == 0 {
                *leaf = new.clone();
            }
            *place = place.wrapping_sub(1);
        }
    }
}

fn values() -> impl Strategy<Value = Value> {
    let numbers = [
        0,
        1,
        2,
        3,
        7,
        1 << 20,
        u64::from(u32::MAX),
        1 << 53,
        u64::MAX - 1,
        u64::MAX,
    ];
    prop_oneof![
        4 => prop::sample::select(numbers.to_vec()).prop_map(Value::from),
        2 => prop::sample::select(vec![-1.0, 1e-300, 0.5, 1e308]).prop_map(Value::from),
        1 => prop::sample::select(vec!["", "B1", "retain", "1f1b", "interleaved:9"]).prop_map(Value::from),
        1 => prop::sample::select(vec![Value::Null, Value::Bool(true), Value::Array(Vec::new())]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn edited_values_are_used_or_refused(
        edits in prop::collection::vec((any::<Index>(), values()), 1..4)
    ) {
        let mut plan: Value = serde_json::from_str(&plan()).unwrap();
        for (index, new) in edits {
            let mut place = index.index(leaves(&plan).max(1));
            replace(&mut plan, &mut place, &new);
        }
        use_all_soon(plan.to_string())?;
    }

    #[test]
    fn damaged_bytes_are_used_or_refused(
        damage in prop::collection::vec((any::<Index>(), any::<u8>(), 0_usize..40), 1..4)
    ) {
        let mut bytes = plan().into_bytes();
        for (index, byte, length) in damage {
            let at = index.index(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, [byte]);
        }
        use_all_soon(String::from_utf8_lossy(&bytes).into_owned())?;
    }

    #[test]
    fn a_plan_that_ends_early_is_refused(end in any::<Index>()) {
        let text = plan();
        let cut: String = text.chars().take(end.index(text.trim_end().len())).collect();
        prop_assert!(Plan::from_json(&cut).is_err());
    }
}
