//! The definition against examples worked out by hand.

use super::*;
use crate::plan::planner::plan_error::ProblemError;
use crate::plan::planner::problem::{SegmentCost, Windows};
use SegmentChoice::{Exposed, InWindow, Retain};
use Window::{B1, B2, Bubble, F1, Recv};

/// Three layers of two halves: times 4 and 6, tapes 10 and 20, kept inputs 2 and 3. Two in flight,
/// three backwards in the steady part and one in the cool-down. Every window has room for 6.
fn example() -> StageProblem {
    let segment = |time, tape, kept| SegmentCost {
        recompute: Nanos(time),
        tape: Bytes(tape),
        kept_input: Bytes(kept),
        collective: Some(Nanos(9)),
        ..SegmentCost::default()
    };
    let six = Some(Nanos(6));
    StageProblem {
        stage: 0,
        layers: 3,
        segments: vec![segment(4, 10, 2), segment(6, 20, 3)],
        split: 1,
        in_flight: 2,
        steady: 3,
        cool_down: 1,
        windows: Windows {
            f1: six,
            f2: six,
            b1: six,
            b2: six,
            send: six,
            recv: six,
            bubble: six,
            entry: Nanos(0),
        },
        forward: Nanos(0),
        backward: Nanos(0),
        fixed: Bytes(100),
        before: Default::default(),
        after: Default::default(),
        budget: Bytes(1000),
    }
}

fn all(first: SegmentChoice, second: SegmentChoice) -> StagePlan {
    StagePlan::uniform(3, vec![first, second])
}

fn numbers(plan: &StagePlan) -> [u64; 5] {
    let cost = evaluate(&example(), plan).unwrap();
    let times = [
        cost.exposed,
        cost.hidden,
        cost.cool_down_exposed,
        cost.cool_down_hidden,
    ];
    [times[0].0, times[1].0, times[2].0, times[3].0, cost.peak.0]
}

#[test]
fn backward_windows_hide_all_but_the_last_layers_second_half() {
    // Held: 5 a layer, 30 for two. At the last layer's M: 20 - 3 more. At A: the second half's 3
    // are gone, 8 of the first half and 17 of the layer before are there.
    let peak = 100 + 15 + 15 - 3 + 8 + 17;
    let early = StagePlan::uniform(3, vec![Exposed, InWindow(B1)]);
    assert_eq!(numbers(&early), [12 + 6, 12, 18, 12, peak]);
    // In B2 the other half is there no longer.
    let later = all(InWindow(B1), InWindow(B2));
    assert_eq!(numbers(&later), [6, 24, 6, 24, 100 + 30 + 17]);
}

#[test]
fn forward_windows_hold_all_layers_and_share_the_bubble_in_the_cool_down() {
    // Held 2 + 20 a layer: 132. Long-lived: 3 x 8.
    assert_eq!(
        numbers(&all(InWindow(F1), Retain)),
        [0, 12, 6, 6, 100 + 132 + 24]
    );
}

#[test]
fn a_bubble_hides_in_the_cool_down_only() {
    // Steady: 8 for one layer, at A of the last, whose 20 are gone: 100 + 132 - 20 + 8. At M: 132.
    // Cool-down: one in flight, 66 + 24.
    assert_eq!(numbers(&all(InWindow(Bubble), Retain)), [12, 0, 6, 6, 232]);
}

#[test]
fn the_head_makes_room_for_the_last_layer() {
    let mut problem = example();
    problem.windows.entry = Nanos(5);
    let cost = evaluate(&problem, &all(Retain, InWindow(B2))).unwrap();
    assert_eq!((cost.exposed, cost.hidden), (Nanos(1), Nanos(12 + 5)));
}

#[test]
fn an_input_is_held_until_it_is_read_or_made_anew_in_its_place() {
    let mut problem = example();
    problem.split = 2;
    problem.segments[0].collective = None;
    let peak = |first, second| {
        let cost = evaluate(&problem, &all(first, second)).unwrap();
        cost.peak.0
    };
    // Recomputed together: the second's input is made anew. 12 held, 8 + 20 made.
    assert_eq!(peak(Exposed, Exposed), 100 + 12 + 28);
    // The first earlier: what it makes for the second is held from then on, for all layers.
    assert_eq!(peak(InWindow(F1), Exposed), 100 + 12 + 3 * (8 + 3) + 17);
    // The first later: the second's input is kept from the forward on.
    assert_eq!(peak(Exposed, InWindow(F1)), 100 + 30 + 3 * 17 + 8);
}

#[test]
fn notes_are_held_whatever_becomes_of_the_input() {
    let mut problem = example();
    problem.split = 2;
    problem.segments[0].collective = None;
    problem.segments[0].notes = Bytes(1);
    problem.segments[1].notes = Bytes(4);
    let peak = |first, second| {
        let cost = evaluate(&problem, &all(first, second)).unwrap();
        cost.peak.0
    };
    // Retained, they are a part of the tape.
    assert_eq!(peak(Retain, Retain), 100 + 6 * 30);
    // Recomputed together: 6 x (2 + 1 + 4) held, and the rest of the tapes made.
    assert_eq!(peak(Exposed, Exposed), 100 + 42 + (10 - 3) + (20 - 4));
    // Alone: 6 x (10 + 3 + 4) held, 20 - 7 made.
    assert_eq!(peak(Retain, Exposed), 100 + 102 + 13);
}

#[test]
fn every_broken_rule_is_named_with_its_numbers() {
    let check = |plan: &StagePlan| evaluate(&example(), plan).unwrap_err().to_string();
    let full = check(&all(InWindow(B2), InWindow(B2)));
    assert_eq!(
        full,
        "B2 is to host 10 ns of recompute, but has room for 6 ns"
    );
    let full = check(&all(InWindow(Recv), Retain));
    assert_eq!(
        full,
        "RECV is to host 12 ns of recompute, but has room for 6 ns"
    );
    let short = StagePlan::uniform(2, vec![Retain, Retain]);
    assert!(check(&short).contains("2 layers in total, but the stage has 3"));
    let narrow = StagePlan::uniform(3, vec![Retain]);
    assert!(check(&narrow).contains("1 choices, but a layer has 2 segments"));
    let mut problem = example();
    problem.budget = Bytes(279);
    let over = evaluate(&problem, &all(Retain, Retain))
        .unwrap_err()
        .to_string();
    assert_eq!(
        over,
        "the plan holds 280 B at its peak, 1 B more than the budget of 279 B"
    );
    problem.cool_down = 0;
    problem.in_flight = 1;
    let gone = evaluate(&problem, &all(InWindow(F1), Retain))
        .unwrap_err()
        .to_string();
    assert_eq!(
        gone,
        "group 0 recomputes in F1, which is not there or switched off"
    );
    problem.layers = 0;
    let none = evaluate(&problem, &all(Retain, Retain));
    assert!(matches!(
        none,
        Err(Violation::Problem(ProblemError::OutOfRange { .. }))
    ));
}
