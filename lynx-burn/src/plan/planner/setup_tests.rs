//! Problems of a GPT on a preset, against its profile and cluster.

use super::*;
use crate::plan::profile::{Gpt, LayerRun};

fn cluster() -> Cluster {
    "a100-40-pcie".parse().unwrap()
}

fn gpt(cluster: &Cluster) -> ModelProfile {
    let mut gpt = Gpt::new("7b".parse().unwrap());
    gpt.tensor_parallel = 4;
    gpt.profile(&cluster.device).unwrap()
}

#[test]
fn windows_are_the_collectives_of_the_halves_times_contention() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let setup = Setup::new(&profile, &cluster, 4, 16);
    let problem = setup.problem(1, 8..16).unwrap();
    let collectives = &profile.kinds[0].segments[2].after_forward;
    let time = cluster.collectives_time(collectives, 4);
    assert_eq!(problem.split, 3);
    for window in [Window::F1, Window::F2, Window::B1, Window::B2] {
        let room = cluster.contention.capacity(window, time);
        assert_eq!(problem.windows.capacity(window), Some(room));
    }
    assert_eq!(problem.windows.send, None);
    assert_eq!(problem.windows.entry, Nanos::ZERO);
    let message = setup.transfer(1, &(8..16));
    assert_eq!(
        problem.windows.recv,
        Some(cluster.contention.capacity(Window::Recv, message))
    );
    let gap = cluster.contention.capacity(Window::Bubble, problem.forward);
    assert_eq!(problem.windows.bubble, Some(gap));
}

#[test]
fn the_last_stage_has_the_head_and_nothing_that_waits_for_a_stage_behind() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let setup = Setup::new(&profile, &cluster, 4, 16);
    let last = setup.problem(3, 24..32).unwrap();
    assert_eq!((last.in_flight, last.steady, last.cool_down), (1, 16, 0));
    assert_eq!((last.windows.recv, last.windows.bubble), (None, None));
    assert!(last.windows.entry > Nanos::ZERO);
    assert_eq!(last.after.tape, profile.head[0].tape);
    let first = setup.problem(0, 0..8).unwrap();
    assert_eq!((first.in_flight, first.steady, first.cool_down), (4, 13, 3));
    assert_eq!(first.before.tape, profile.embedding[0].tape);
    assert!(
        last.backward > first.backward,
        "the head is heavier than the embedding"
    );
}

#[test]
fn weights_of_all_stages_are_those_of_the_model_with_a_copy_of_what_is_tied() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let fixed = |stages: usize| -> u64 {
        let setup = Setup::new(&profile, &cluster, stages, 4);
        let each = 32 / stages;
        let all = (0..stages).map(|s| setup.problem(s, s * each..(s + 1) * each).unwrap());
        all.map(|problem| problem.fixed.0).sum()
    };
    let model = profile.weights().total().0;
    assert_eq!(fixed(1), model);
    assert_eq!(fixed(4), model + profile.tied.total().0);
}

#[test]
fn gpipe_holds_all_micro_batches_and_has_no_forward_windows() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let mut setup = Setup::new(&profile, &cluster, 4, 16);
    setup.schedule = Kind::GPipe;
    let problem = setup.problem(2, 16..24).unwrap();
    assert_eq!((problem.in_flight, problem.steady), (16, 0));
    assert!(!problem.usable(Window::F1) && problem.usable(Window::B1));
}

#[test]
fn stages_that_cannot_be_are_refused_with_their_numbers() {
    let cluster = cluster();
    let mut profile = gpt(&cluster);
    let mut other = profile.kinds[0].clone();
    other.name = "other".to_owned();
    profile.kinds.push(other);
    profile.layers = ["gpt", "other"]
        .map(|kind| LayerRun {
            kind: kind.to_owned(),
            count: 4,
        })
        .to_vec();
    let setup = Setup::new(&profile, &cluster, 2, 4);
    let refused = |stage, layers| setup.problem(stage, layers).unwrap_err().to_string();
    assert!(refused(0, 3..5).contains("\"gpt\" and \"other\""));
    assert!(refused(1, 4..9).contains("layers 4..9, but the model has 8"));
    assert!(refused(2, 4..8).contains("stage 2 does not exist"));
    assert!(setup.problem(1, 4..8).is_ok());
    let nothing = 3..3;
    assert!(setup.problem(0, nothing).is_err());
}
