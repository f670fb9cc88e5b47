//! Bad input is refused with its values, and never makes anything panic.

use std::num::NonZeroU64;

use super::super::costs::{Costs, Split, StageCosts};
use super::super::window::Window;
use super::super::{SimError, record, simulate};
use super::{collective, compute, even, keep, moving, recompute};
use crate::plan::schedule::transfers::eager;
use crate::plan::schedule::{Kind, Schedule};
use crate::units::{Bytes, Nanos};

fn refusal(schedule: &Schedule, costs: &Costs) -> String {
    let error = simulate(schedule, costs).unwrap_err();
    assert_eq!(record(schedule, costs).unwrap_err(), error);
    let text = error.to_string();
    assert!(!text.starts_with(char::is_uppercase), "{text}");
    text
}

fn sound() -> (Schedule, Costs) {
    let schedule = eager(&Kind::OneFOneB.generate(2, 3).unwrap());
    (schedule, Costs::with_free_links(even(2, 1, 2)))
}

#[test]
fn costs_that_do_not_fit_the_schedule_are_refused_with_both_counts() {
    let (schedule, costs) = sound();
    assert!(simulate(&schedule, &costs).is_ok());
    let mut other = costs.clone();
    other.stages.pop();
    let words = "costs of 1 stages are given, but the schedule has 2";
    assert_eq!(refusal(&schedule, &other), words);
    let mut other = costs.clone();
    other.links.clear();
    assert_eq!(
        refusal(&schedule, &other),
        "0 links are given, but 2 stages have 1"
    );
    let mut other = costs;
    other.sizes = vec![1000; 4];
    let words = "sizes of 4 micro-batches are given, but the schedule has 3";
    assert_eq!(refusal(&schedule, &other), words);
}

#[test]
fn costs_of_a_ring_are_counted_with_its_chunks_and_its_closing_link() {
    let kind: Kind = "interleaved:2".parse().unwrap();
    let schedule = eager(&kind.generate(2, 2).unwrap());
    let costs = Costs::in_shape(schedule.shape(), even(4, 1, 2));
    assert_eq!(costs.links.len(), 2);
    assert!(simulate(&schedule, &costs).is_ok());
    let mut other = costs.clone();
    other.stages.pop();
    let words = "costs of 3 stages are given, but the schedule has 4";
    assert_eq!(refusal(&schedule, &other), words);
    let mut other = costs.clone();
    other.links.pop();
    let words = "1 links are given, but 2 stages have 2";
    assert_eq!(refusal(&schedule, &other), words);
    // Index 3 is chunk 1 of stage 1.
    let mut other = costs;
    other.stages[3].forward.push(recompute(1));
    let words = "the forward of stage 1, chunk 1 has recompute in it";
    assert_eq!(refusal(&schedule, &other), words);
}

#[test]
fn recompute_has_no_place_in_the_gradients_of_weights() {
    let (schedule, mut costs) = sound();
    let split = |weight| Split {
        input: vec![recompute(3), collective(Window::B1, 4, 2)],
        weight: vec![weight],
    };
    costs.stages[1].split = Some(split(collective(Window::B2, 3, 0)));
    assert!(simulate(&schedule, &costs).is_ok());
    for weight in [recompute(1), collective(Window::B2, 3, 1)] {
        costs.stages[1].split = Some(split(weight));
        let words = "the weights' part of stage 1 has recompute in it";
        assert_eq!(refusal(&schedule, &costs), words);
    }
    costs.stages[1].split = Some(split(moving(compute("w", 1), 0, 1)));
    assert!(refusal(&schedule, &costs).contains("the backward of stage 1 frees more"));
}

#[test]
fn parts_where_they_make_no_sense_are_refused_with_their_stage() {
    let (schedule, costs) = sound();
    let mut wrong = costs.clone();
    wrong.stages[1].forward.push(collective(Window::B1, 1, 0));
    let words = "a collective in the forward of stage 1 opens window B1";
    assert_eq!(refusal(&schedule, &wrong), words);
    let mut wrong = costs.clone();
    wrong.stages[0]
        .backward
        .push(collective(Window::Bubble, 1, 0));
    let words = "a collective in the backward of stage 0 opens window BUBBLE";
    assert_eq!(refusal(&schedule, &wrong), words);
    let mut wrong = costs.clone();
    wrong.stages[1].forward.push(recompute(1));
    assert_eq!(
        refusal(&schedule, &wrong),
        "the forward of stage 1 has recompute in it"
    );
    let mut wrong = costs;
    for factor in [1.001, -0.1, f64::NAN] {
        wrong.contention.f2 = factor;
        let words = format!("recompute can use {factor} of a window F2");
        let error = simulate(&schedule, &wrong).unwrap_err().to_string();
        assert!(error.starts_with(&words), "{error}");
    }
}

#[test]
fn sums_that_fit_no_type_are_refused_before_anything_is_added() {
    let (schedule, costs) = sound();
    let most = u64::MAX;
    let mut long = costs.clone();
    long.stages[1] = StageCosts::plain(Nanos(most / 3), Nanos(1));
    assert!(refusal(&schedule, &long).contains("all times of the step add up to"));
    long.stages[1] = StageCosts::plain(Nanos(most / 3 - 100), Nanos(1));
    assert!(simulate(&schedule, &long).is_ok());
    let mut long = costs.clone();
    long.stages[0].ahead.work = Nanos(most);
    assert!(refusal(&schedule, &long).contains("all times of the step add up to"));
    let mut slow = costs.clone();
    slow.links[0].backward.bytes = Bytes(most);
    slow.links[0].backward.bytes_per_second = NonZeroU64::new(1);
    assert!(refusal(&schedule, &slow).contains("all times of the step add up to"));
    let mut huge = costs.clone();
    keep(&mut huge.stages[1], most / 4);
    assert!(refusal(&schedule, &huge).contains("all bytes of stage 1 add up to"));
    let mut late = costs;
    late.links[0].forward.latency = Nanos(most);
    late.sizes = vec![u32::MAX; 3];
    assert!(matches!(
        simulate(&schedule, &late),
        Err(SimError::TooLong { .. })
    ));
}

#[test]
fn nobody_frees_what_was_not_taken() {
    let (schedule, costs) = sound();
    let mut wrong = costs.clone();
    keep(&mut wrong.stages[1], 5);
    wrong.stages[1].backward.push(moving(compute("b", 1), 1, 6));
    assert!(simulate(&schedule, &wrong).is_ok());
    wrong.stages[1].backward.push(moving(compute("b", 1), 0, 1));
    let words = "the backward of stage 1 frees more bytes than its micro-batch holds";
    assert_eq!(refusal(&schedule, &wrong), words);
    let mut wrong = costs;
    wrong.stages[0].forward.push(moving(compute("f", 1), 0, 1));
    assert!(refusal(&schedule, &wrong).contains("the forward of stage 0 frees"));
}

#[test]
fn an_unsound_schedule_is_refused_as_the_validator_does() {
    let costs = |p| Costs::with_free_links(even(p, 1, 2));
    let read = |text: &str| text.parse::<Schedule>().unwrap();
    let cases = [
        ("schedule p=0 m=1", "a schedule needs at least one stage"),
        ("schedule p=1 m=0\nstage 0:", "at least one micro-batch"),
        (
            "schedule p=1 m=1\nstage 0: B0 F0",
            "stage 0 does B0 before F0",
        ),
        (
            "schedule p=1 m=1\nstage 0: F0 F0",
            "stage 0 does F0 more than once",
        ),
        (
            "schedule p=1 m=1\nstage 0: F0 SF0",
            "does SF0, but there is no stage",
        ),
        (
            "schedule p=1 m=1\nstage 0: F0 F7",
            "does F7, but the step has only 1",
        ),
        ("schedule p=1 m=2\nstage 0: F0 B0", "stage 0 never does F1"),
        (
            "schedule p=1 m=2\nstage 0: F0 F1 B1",
            "stage 0 never does B0",
        ),
        (
            "schedule p=1 m=18446744073709551615\nstage 0: F0",
            "stage 0 never does F1",
        ),
        (
            "schedule p=1 m=1\nstage 0: F0 B0 I0",
            "stage 0 does B0 and also I0",
        ),
        (
            "schedule p=1 m=1\nstage 0: F0 F0.1",
            "stage 0 does F0.1, but stages have only 1 chunks",
        ),
        (
            "schedule p=2 m=1\nstage 0: F0 SF0\nstage 1: F0",
            "stage 1 does F0 before RF0",
        ),
        (
            "schedule p=2 m=2\nstage 0: F0 F1 SF1 SF0\nstage 1: RF0 F0 RF1 F1",
            "transfer 0 from stage 0 to stage 1 is sent as SF1 but received as RF0",
        ),
        (
            "schedule p=2 m=1\nstage 0: F0 RB0 SF0 B0\nstage 1: RF0 F0 B0 SB0",
            "deadlock with mailboxes of capacity 1: stage 0 at RB0 waits for SB0 of stage 1; \
             stage 1 at RF0 waits for SF0 of stage 0",
        ),
    ];
    for (text, words) in cases {
        let schedule = read(text);
        let refused = refusal(&schedule, &costs(schedule.stages.len()));
        assert!(refused.contains(words), "{refused} should say {words}");
    }
    // A gradient is sent, but nobody wants it.
    let left = read("schedule p=2 m=1\nstage 0: F0 SF0 RB0 B0\nstage 1: RF0 F0 B0 SB0");
    let left = Schedule {
        stages: vec![left.stages[0][..2].to_vec(), left.stages[1].clone()],
        ..left
    };
    assert_eq!(refusal(&left, &costs(2)), "stage 0 never does B0");
}

#[test]
fn eager_transfers_without_mailboxes_get_stuck_and_say_where() {
    let (schedule, mut costs) = sound();
    costs.mailbox_capacity = 0;
    let words = "stage 0 at SF1 waits for RF1 of stage 1; stage 1 at SB0 waits for RB0 of stage 0";
    assert!(refusal(&schedule, &costs).ends_with(words));
}

#[test]
fn an_unknown_word_in_a_file_of_costs_is_refused() {
    let (_, costs) = sound();
    let file = serde_json::to_string(&costs).unwrap();
    assert_eq!(serde_json::from_str::<Costs>(&file).unwrap(), costs);
    let broken = file.replace("\"label\"", "\"lable\"");
    let error = serde_json::from_str::<Costs>(&broken).unwrap_err();
    assert!(error.to_string().contains("lable"), "{error}");
}
