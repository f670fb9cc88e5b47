//! Steps whose time, memory or critical path are known on paper.

use std::num::NonZeroU64;

use proptest::prelude::*;

use super::super::costs::{Ahead, ChannelCosts, Costs, LinkCosts, StageCosts};
use super::super::window::Window;
use super::super::{PathKind, Place, Report, record, simulate};
use super::{collective, compute, even, keep, moving, recompute};
use crate::plan::schedule::transfers::{eager, rendezvous};
use crate::plan::schedule::{Kind, Schedule, forward_only};
use crate::units::{Bytes, Nanos};

const KINDS: [Kind; 2] = [Kind::GPipe, Kind::OneFOneB];

fn run(schedule: &Schedule, stages: Vec<StageCosts>, capacity: usize) -> Report {
    let mut costs = Costs::with_free_links(stages);
    costs.mailbox_capacity = capacity;
    simulate(schedule, &costs).unwrap()
}

proptest! {
    #[test]
    fn even_stages_with_free_links_take_m_plus_p_minus_1_passes(
        p in 1usize..9,
        m in 1usize..20,
        f in 1u64..1000,
        b in 1u64..1000,
        capacity in 1usize..3,
    ) {
        for kind in KINDS {
            let schedule = eager(&kind.generate(p, m).unwrap());
            let report = run(&schedule, even(p, f, b), capacity);
            let (p, m) = (p as u64, m as u64);
            prop_assert_eq!(report.step.0, (m + p - 1) * (f + b), "{}", kind);
            let ratio = (p - 1) as f64 / (m + p - 1) as f64;
            prop_assert!((report.bubble_ratio() - ratio).abs() < 1e-12);
        }
    }

    /// The pass lays a backward out as two forwards, so here they must be.
    #[test]
    fn meetings_cost_nothing_when_everything_is_even(
        p in 1usize..9, m in 1usize..20, f in 1u64..1000, capacity in 0usize..3,
    ) {
        for kind in KINDS {
            let schedule = rendezvous(&kind.generate(p, m).unwrap()).unwrap();
            let report = run(&schedule, even(p, f, 2 * f), capacity);
            prop_assert_eq!(report.step.0, (m + p - 1) as u64 * 3 * f, "{}", kind);
        }
    }

    #[test]
    fn one_stage_only_adds_up(m in 1usize..9, f in 0u64..1000, b in 0u64..1000) {
        for kind in KINDS {
            let report = run(&kind.generate(1, m).unwrap(), even(1, f, b), 0);
            prop_assert_eq!(report.step.0, m as u64 * (f + b));
            prop_assert_eq!(report.bubble_ratio(), 0.0);
        }
    }

    #[test]
    fn evaluation_fills_the_pipeline_once_and_keeps_nothing(
        p in 1usize..9, m in 1usize..20, f in 1u64..1000,
    ) {
        let mut stages = even(p, f, 7);
        for stage in &mut stages {
            keep(stage, 5);
            stage.forward.push(moving(compute("workspace", 0), 3, 3));
        }
        let report = run(&eager(&forward_only(p, m).unwrap()), stages, 1);
        prop_assert_eq!(report.step.0, (m + p - 1) as u64 * f);
        prop_assert!(report.stages.iter().all(|stage| stage.peak == Bytes(8)));
    }

    #[test]
    fn in_1f1b_stage_s_holds_min_m_and_p_minus_s_micro_batches_and_in_gpipe_all(
        p in 1usize..9, m in 1usize..20, f in 0u64..9, b in 0u64..9,
    ) {
        let mut stages = even(p, f, b);
        for stage in &mut stages {
            stage.fixed = Bytes(1000);
            keep(stage, 10);
        }
        for kind in KINDS {
            let report = run(&eager(&kind.generate(p, m).unwrap()), stages.clone(), 1);
            for (s, stage) in report.stages.iter().enumerate() {
                let held = if kind == Kind::GPipe { m } else { m.min(p - s) };
                prop_assert_eq!(stage.peak, Bytes(1000 + 10 * held as u64));
            }
        }
    }
}

/// 1 stage: 10 + 6 forward; backward 4 with 9 hidden of 12, 3 left, 5 exposed.
#[test]
fn a_window_hides_what_fits_and_the_rest_follows_it() {
    let stage = |share| {
        let mut costs = Costs::with_free_links(vec![StageCosts {
            forward: vec![compute("f", 10), collective(Window::F1, 6, 0)],
            backward: vec![compute("b", 4), collective(Window::B1, 9, 12), recompute(5)],
            ..StageCosts::default()
        }]);
        costs.contention.b1 = share;
        simulate(&Kind::GPipe.generate(1, 1).unwrap(), &costs).unwrap()
    };
    let report = stage(1.0);
    assert_eq!(report.step, Nanos(10 + 6 + 4 + 9 + 3 + 5));
    assert_eq!(report.stages[0].hidden.b1, Nanos(9));
    assert_eq!(report.exposed(), Nanos(8));
    assert_eq!(report.hidden_fraction(), Some(9.0 / 17.0));
    // Two fifths of 9 are 3.6, so 4 are done, and 8 are left.
    let report = stage(0.4);
    assert_eq!(report.step, Nanos(10 + 6 + 4 + 9 + 8 + 5));
    assert_eq!(report.stages[0].hidden.b1, Nanos(4));
}

/// Two stages, 1F1B: only the second backward of stage 0 waits with nothing
/// else to do, and only while stage 1 runs its last backward.
#[test]
fn a_cool_down_bubble_hides_recompute_when_it_may() {
    let schedule = eager(&Kind::OneFOneB.generate(2, 2).unwrap());
    let step = |bubble| {
        let mut stages = even(2, 10, 20);
        stages[0].ahead = Ahead {
            work: Nanos(8),
            bubble,
            ..Ahead::default()
        };
        run(&schedule, stages, 1)
    };
    let exposed = step(false);
    // Without recompute 90; both backwards of stage 0 add to it only at the end,
    // as stage 1 is not held up: F1 is there before B0 of stage 1 is over.
    assert_eq!(exposed.step, Nanos(98));
    assert_eq!(exposed.exposed(), Nanos(16));
    let hidden = step(true);
    assert_eq!(hidden.step, Nanos(90));
    assert_eq!(hidden.stages[0].hidden.bubble, Nanos(16));
    assert_eq!(hidden.exposed(), Nanos(0));
}

/// F0 | message: 3 bytes at 1 GB/s, 2 latency | F0 B0 | free message | B0.
#[test]
fn the_critical_path_goes_over_the_link_and_back() {
    let forward = ChannelCosts {
        latency: Nanos(2),
        bytes: Bytes(3),
        bytes_per_second: NonZeroU64::new(1_000_000_000),
    };
    let mut costs = Costs::with_free_links(even(2, 10, 20));
    costs.links = vec![LinkCosts {
        forward,
        backward: ChannelCosts::default(),
    }];
    let schedule = eager(&Kind::OneFOneB.generate(2, 1).unwrap());
    let (report, timeline) = record(&schedule, &costs).unwrap();
    assert_eq!(report.step, Nanos(65));
    assert_eq!(report.channels[0].busy, Nanos(3));
    assert_eq!(report.stages[1].waiting.bubble, Nanos(10));
    assert_eq!(report.stages[1].waiting.recv, Nanos(5));
    let path = timeline.critical_path().unwrap();
    let spans = path.iter().map(|span| {
        let place = match span.place {
            Place::Stage(stage) => stage.to_string(),
            Place::Channel { from, to, .. } => format!("{from} to {to}"),
        };
        let kind = match span.kind {
            PathKind::Work(kind) => format!("{kind:?}"),
            kind => format!("{kind:?}"),
        };
        format!("{place}, {}..{}: {kind}", span.begin.0, span.end.0)
    });
    assert_eq!(
        spans.collect::<Vec<_>>(),
        [
            "stage 0, 0..10: Forward",
            "stage 0 to stage 1, 10..13: Wire",
            "stage 0 to stage 1, 13..15: Latency",
            "stage 1, 15..25: Forward",
            "stage 1, 25..45: Backward",
            "stage 0, 45..65: Backward",
        ]
    );
}

/// Three messages of 10 leave one after the other while the stage computes on.
#[test]
fn a_slow_link_is_the_critical_path_and_carries_one_message_at_a_time() {
    let slow = ChannelCosts {
        latency: Nanos(0),
        bytes: Bytes(10),
        bytes_per_second: NonZeroU64::new(1_000_000_000),
    };
    let mut costs = Costs::with_free_links(even(2, 1, 0));
    costs.links[0].forward = slow;
    costs.mailbox_capacity = 3;
    let schedule = eager(&forward_only(2, 3).unwrap());
    let (report, timeline) = record(&schedule, &costs).unwrap();
    assert_eq!(report.step, Nanos(1 + 3 * 10 + 1));
    assert_eq!(report.stages[0].end, Nanos(3));
    let path = timeline.critical_path().unwrap();
    let wires = path.iter().filter(|span| span.kind == PathKind::Wire);
    assert_eq!(
        wires.map(|span| span.micro_batch.0).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    // A stage that stands still until its messages have left is done later.
    costs.blocking_sends = true;
    let blocking = simulate(&schedule, &costs).unwrap();
    assert_eq!(blocking.stages[0].end, Nanos(3 * 11));
    assert_eq!(blocking.stages[0].waiting.send, Nanos(30));
    // Room for one message, and the reader takes its time.
    costs.blocking_sends = false;
    costs.mailbox_capacity = 1;
    let waits = simulate(&schedule, &costs).unwrap();
    assert_eq!(waits.stages[0].waiting.bubble, Nanos(9 + 9));
}
