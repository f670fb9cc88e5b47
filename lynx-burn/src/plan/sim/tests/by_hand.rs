//! Small steps whose bytes and windows are added up by hand.

use super::super::costs::{Ahead, CoolDown, Costs, Part, StageCosts};
use super::super::timeline::SpanKind;
use super::super::window::Window;
use super::super::{Report, record, simulate, svg, trace};
use super::{collective, compute, even, keep, moving, recompute};
use crate::plan::schedule::transfers::eager;
use crate::plan::schedule::{Kind, Schedule, reduce_gradients};
use crate::units::{Bytes, Nanos};

fn run(schedule: &Schedule, stages: Vec<StageCosts>) -> Report {
    simulate(schedule, &Costs::with_free_links(stages)).unwrap()
}

#[test]
fn larger_micro_batches_take_longer_and_hold_more() {
    let mut stages = even(1, 100, 200);
    keep(&mut stages[0], 10);
    let mut costs = Costs::with_free_links(stages);
    costs.sizes = vec![1000, 500, 1250];
    let report = simulate(&Kind::GPipe.generate(1, 3).unwrap(), &costs).unwrap();
    assert_eq!(report.step, Nanos(300 + 150 + 375));
    assert_eq!(report.stages[0].peak, Bytes(10 + 5 + 12));
}

/// Two stages of 1 forward and 2 backward with 2 micro-batches: stage 0 is done with its last
/// backward at 9 and stage 1 at 7. What a reduction takes comes on top, on each by itself.
#[test]
fn gradients_are_reduced_behind_the_last_backward_of_each_stage() {
    let mut stages = even(2, 1, 2);
    (stages[0].reduction, stages[1].reduction) = (Nanos(3), Nanos(7));
    let costs = Costs::with_free_links(stages);
    let plain = eager(&Kind::OneFOneB.generate(2, 2).unwrap());
    let without = simulate(&plain, &costs).unwrap();
    let ends = |report: &Report| [0, 1].map(|stage: usize| report.stages[stage].end.0);
    assert_eq!(ends(&without), [9, 7]);
    let (report, timeline) = record(&reduce_gradients(&plain), &costs).unwrap();
    assert_eq!(ends(&report), [9 + 3, 7 + 7]);
    assert_eq!(report.step, Nanos(14));
    for (stage, time) in [(0, 3), (1, 7)] {
        assert_eq!(report.stages[stage].reduction, Nanos(time));
        let busy = without.stages[stage].busy();
        assert_eq!(
            report.stages[stage].busy(),
            busy.saturating_add(Nanos(time))
        );
        let last = timeline.stages[stage].main.last().unwrap();
        assert_eq!(last.kind, SpanKind::Reduction);
        assert_eq!((last.micro_batch.0, last.end.0 - last.begin.0), (1, time));
    }
    let trace = trace::to_string(&timeline);
    assert_eq!(
        trace
            .matches("\"name\":\"G1\",\"cat\":\"reduction\"")
            .count(),
        2
    );
    let picture = svg::draw(&timeline, &svg::Options::default());
    assert!(picture.contains("gradients over replicas") && picture.contains("G1"));
    let plain = svg::draw(&record(&plain, &costs).unwrap().1, &svg::Options::default());
    assert!(!plain.contains("gradients over replicas"));
}

/// Forward keeps 4 of the first part and 6 of the second; backward makes 5 anew before it frees
/// the second part's 6, with 3 for a moment, and then all of the first.
#[test]
fn memory_rises_and_falls_part_by_part() {
    let stage = StageCosts {
        forward: vec![moving(compute("a", 1), 4, 0), moving(compute("b", 1), 6, 0)],
        backward: vec![
            moving(compute("b", 1), 3, 9),
            moving(recompute(1), 5, 0),
            moving(compute("a", 1), 0, 9),
        ],
        fixed: Bytes(100),
        ..StageCosts::default()
    };
    let costs = Costs::with_free_links(vec![stage]);
    let schedule = Kind::GPipe.generate(1, 1).unwrap();
    let (report, timeline) = record(&schedule, &costs).unwrap();
    assert_eq!(report.stages[0].peak, Bytes(113));
    let curve = timeline.stages[0].memory.iter();
    let curve: Vec<_> = curve
        .map(|point| (point.at.0, point.bytes.0 - 100))
        .collect();
    let by_hand = [(0, 0), (0, 4), (1, 10), (2, 13), (3, 4), (3, 9), (5, 0)];
    assert_eq!(curve, by_hand);
}

/// At one and a half times the size, 1 and 1 are taken, rounded down, and 3 would be freed.
#[test]
fn what_rounding_adds_to_what_is_freed_is_not_freed() {
    let stage = StageCosts {
        forward: vec![moving(compute("a", 1), 1, 0), moving(compute("b", 1), 1, 0)],
        backward: vec![moving(compute("b", 1), 0, 2), moving(compute("a", 1), 7, 0)],
        ..StageCosts::default()
    };
    let mut costs = Costs::with_free_links(vec![stage]);
    costs.sizes = vec![1500];
    let report = simulate(&Kind::GPipe.generate(1, 1).unwrap(), &costs).unwrap();
    assert_eq!(report.stages[0].peak, Bytes(10));
}

/// One stage, three micro-batches; the last backward recomputes 7 instead of 2, and 10 more bytes.
#[test]
fn backwards_of_the_cool_down_have_costs_of_their_own() {
    let mut stages = even(1, 10, 20);
    stages[0].backward.push(recompute(2));
    stages[0].cool_down = Some(CoolDown {
        backwards: 1,
        backward: vec![compute("b", 20), moving(recompute(7), 10, 0)],
        input: None,
        ahead: Ahead::default(),
    });
    let report = run(&Kind::OneFOneB.generate(1, 3).unwrap(), stages);
    assert_eq!(report.step, Nanos(3 * 30 + 2 + 2 + 7));
    assert_eq!(report.stages[0].peak, Bytes(10));
}

/// Of a window of 10 that holds 4 of other work, 6 are left for recompute.
#[test]
fn what_is_beside_a_collective_already_leaves_less_room() {
    let mut b1 = collective(Window::B1, 10, 8);
    let Part::Collective { busy, .. } = &mut b1 else {
        panic!("a collective is one");
    };
    *busy = Nanos(4);
    let stage = StageCosts {
        backward: vec![b1],
        ..StageCosts::default()
    };
    let report = run(&Kind::GPipe.generate(1, 1).unwrap(), vec![stage]);
    assert_eq!(report.step, Nanos(12));
    assert_eq!(report.hidden(), Nanos(6));
}
