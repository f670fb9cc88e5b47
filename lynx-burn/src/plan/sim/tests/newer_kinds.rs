//! Closed forms of interleaved 1F1B, ZB-H1 and deepened schedules.

use proptest::prelude::*;

use super::super::costs::{Costs, StageCosts};
use super::super::timeline::{Span, SpanKind};
use super::super::{Report, SimError, record, simulate};
use super::{even, keep};
use crate::plan::schedule::transfers::{eager, rendezvous};
use crate::plan::schedule::{Kind, Schedule, deepen};
use crate::units::{Bytes, Nanos};

fn run(schedule: &Schedule, stages: Vec<StageCosts>) -> Report {
    let mut costs = Costs::in_shape(schedule.shape(), stages);
    costs.mailbox_capacity = schedule.micro_batches;
    simulate(schedule, &costs).unwrap()
}

fn interleaved(v: usize) -> Kind {
    format!("interleaved:{v}").parse().unwrap()
}

fn splits(p: usize, f: u64, i: u64, w: u64) -> Vec<StageCosts> {
    vec![StageCosts::plain_split(Nanos(f), Nanos(i), Nanos(w)); p]
}

proptest! {
    /// Section 2.2 of arXiv 2104.04473, with times of a chunk: a device's whole
    /// share takes `v` times as long.
    #[test]
    fn interleaving_shrinks_the_bubble_to_one_part_in_v(
        p in 1usize..7,
        groups in 1usize..5,
        v in 1usize..5,
        (f, b) in (1u64..1000, 1u64..1000),
    ) {
        let m = p * groups;
        let schedule = eager(&interleaved(v).generate(p, m).unwrap());
        let report = run(&schedule, even(p * v, f, b));
        let (bubble, ideal) = ((p - 1) as u64 * (f + b), (m * v) as u64 * (f + b));
        prop_assert_eq!(report.step.0, ideal + bubble);
        let of_ideal = (p - 1) as f64 / (v * m) as f64;
        prop_assert!((bubble as f64 / ideal as f64 - of_ideal).abs() < 1e-12);
        let ratio = bubble as f64 / (ideal + bubble) as f64;
        prop_assert!((report.bubble_ratio() - ratio).abs() < 1e-12);
    }

    /// Table 2 of arXiv 2401.10241, which has `w` in the place of `filled`: the
    /// same where W takes no longer than F and I. Longer W fill no more: between
    /// stage 0's last I it stands still for F only, and the last stage, whose W
    /// come at the end, ends later than the others.
    #[test]
    fn the_bubble_of_zb_h1_is_f_plus_i_less_w_for_each_other_stage(
        p in 1usize..8,
        more in 0usize..12,
        (f, i, w) in (1u64..1000, 1u64..1000, 1u64..1000),
    ) {
        let filled = w.min(f).min(i);
        let m = p + more;
        let schedule = eager(&Kind::ZbH1.generate(p, m).unwrap());
        let report = run(&schedule, splits(p, f, i, w));
        let work = m as u64 * (f + i + w);
        prop_assert_eq!(report.step.0 - work, (p - 1) as u64 * (f + i - filled));
        let plain = eager(&Kind::OneFOneB.generate(p, m).unwrap());
        let plain = run(&plain, splits(p, f, i, w));
        prop_assert_eq!(plain.step.0 - work, (p - 1) as u64 * (f + i + w));
    }

    #[test]
    fn a_delayed_backward_on_one_stage_costs_no_time_and_one_micro_batch(
        m in 2usize..20, f in 1u64..100, b in 1u64..100,
    ) {
        let mut stages = even(1, f, b);
        keep(&mut stages[0], 10);
        let plain = Kind::OneFOneB.generate(1, m).unwrap();
        let before = run(&plain, stages.clone());
        let after = run(&deepen(&plain, &[1]), stages);
        prop_assert_eq!(after.step, before.step);
        prop_assert_eq!(after.stages[0].peak.0, before.stages[0].peak.0 + 10);
    }

    /// A stage's bytes in flight, by the limits that the validator knows.
    #[test]
    fn memory_follows_what_is_in_flight(
        p in 1usize..6, groups in 1usize..4, v in 2usize..4, f in 1u64..9, b in 1u64..9,
    ) {
        let m = p * groups;
        let with_bytes = |mut stages: Vec<StageCosts>| {
            for stage in &mut stages {
                stage.fixed = Bytes(1000);
                keep(stage, 10);
            }
            stages
        };
        let chunks = run(&eager(&interleaved(v).generate(p, m).unwrap()), with_bytes(even(p * v, f, b)));
        for (s, stage) in chunks.stages.iter().enumerate() {
            let units = (m * v).min(2 * (p - s - 1) + (v - 1) * p + 1);
            prop_assert_eq!(stage.peak.0, (1000 * v + 10 * units) as u64);
        }
        let zb = run(&eager(&Kind::ZbH1.generate(p, m).unwrap()), with_bytes(splits(p, f, b, f)));
        for stage in &zb.stages {
            prop_assert_eq!(stage.peak.0, (1000 + 10 * m.min(p)) as u64);
        }
    }
}

/// One stage behind another: 1F1B's first stage stands still for the last
/// backward of the second and then runs its own; put off, the weights fill it.
#[test]
fn weights_fill_the_cool_down_of_two_stages() {
    let schedule = eager(&Kind::ZbH1.generate(2, 2).unwrap());
    let report = run(&schedule, splits(2, 10, 10, 10));
    // Stage 0: F0 F1 (10 idle) I0 W0 I1 W1, stage 1: (10 idle) F0 I0 F1 I1 W0 W1.
    assert_eq!(report.stages[0].end, Nanos(70));
    assert_eq!(report.stages[1].end, Nanos(70));
    assert_eq!(report.stages[0].waiting.bubble, Nanos(10));
}

/// The idea of Obscura. The first gradient is back at stage 0 after 4 * 10 +
/// 3 * 20; stage 0 has done 4 forwards by then, and 7 if it goes 3 deeper. What
/// is missing there from its 3 * 30 of standing still comes in gaps of 10 before
/// backwards of the cool-down, where recompute ahead can use it.
#[test]
fn forwards_in_the_first_bubble_move_it_to_before_the_last_backwards() {
    let plain = Kind::OneFOneB.generate(4, 12).unwrap();
    let idle = |schedule: &Schedule| {
        let mut costs = Costs::with_free_links(even(4, 10, 20));
        costs.mailbox_capacity = 12;
        let (report, timeline) = record(&eager(schedule), &costs).unwrap();
        let main = &timeline.stages[0].main;
        let first = main.iter().position(|s| s.kind == SpanKind::Backward);
        let (before, after) = main.split_at(first.unwrap());
        let waits = |spans: &[Span]| {
            let waits = spans.iter().filter(|span| span.kind.is_wait());
            waits
                .map(|span| span.end.0 - span.begin.0)
                .collect::<Vec<_>>()
        };
        (report.step, waits(before), waits(after))
    };
    let step = Nanos((12 + 3) * 30);
    assert_eq!(idle(&plain), (step, vec![60], vec![10; 3]));
    let deep = deepen(&plain, &[3, 2, 1, 0]);
    assert_eq!(idle(&deep), (step, vec![30], vec![10; 6]));
}

#[test]
fn a_split_backward_without_costs_in_two_parts_is_refused_with_the_action() {
    let schedule = eager(&Kind::ZbH1.generate(2, 2).unwrap());
    let error = simulate(&schedule, &Costs::with_free_links(even(2, 1, 2))).unwrap_err();
    assert!(matches!(error, SimError::NotSplit { .. }));
    let words = "stage 1 does I0, but its backward has no costs in two parts";
    assert_eq!(error.to_string(), words);
}

#[test]
fn the_critical_path_of_a_ring_of_two_takes_the_right_channel() {
    let schedule = rendezvous(&interleaved(2).generate(2, 2).unwrap()).unwrap();
    let mut costs = Costs::in_shape(schedule.shape(), even(4, 10, 20));
    for (number, link) in costs.links.iter_mut().enumerate() {
        link.forward.latency = Nanos(3 + number as u64);
        link.backward.latency = Nanos(5 + number as u64);
    }
    let (report, timeline) = record(&schedule, &costs).unwrap();
    let path = timeline.critical_path().unwrap();
    let times = path.iter().map(|span| span.end.0 - span.begin.0);
    assert_eq!(times.sum::<u64>(), report.step.0);
}
