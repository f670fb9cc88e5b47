//! What must hold for all schedules and all costs.

use proptest::prelude::*;

use super::super::costs::{Ahead, Costs, Part};
use super::super::timeline::SpanKind;
use super::super::{PathKind, Place, Report, SimError, record, simulate};
use super::random::{broken, cases};
use super::{moving, naive, recompute};
use crate::plan::schedule::{Action, Kind, Rules, Schedule, ScheduleError, validate};
use crate::units::Nanos;

fn figures(report: &Report) -> Vec<naive::Figures> {
    let nonzero = |windows: &super::super::PerWindow<Nanos>| {
        let windows = windows.iter().filter(|(_, time)| time.0 > 0);
        windows.map(|(window, time)| (window, time.0)).collect()
    };
    let stages = report.stages.iter().map(|stage| naive::Figures {
        end: stage.end.0,
        busy: stage.busy().0,
        exposed: stage.exposed.0,
        hidden: nonzero(&stage.hidden),
        waiting: nonzero(&stage.waiting),
        peak: stage.peak.0,
    });
    stages.collect()
}

/// Whether two parts of backwards of one chunk are only meant to be in order.
fn only_ascends(action: Action, needs: Action) -> bool {
    let backward = |a: Action| a.is_compute() && !a.is_forward();
    let both = backward(action) && backward(needs);
    both && action.chunk() == needs.chunk() && action.micro_batch() != needs.micro_batch()
}

/// The same costs with all recompute where nothing hides it.
fn all_exposed(costs: &Costs) -> Costs {
    let mut costs = costs.clone();
    for stage in &mut costs.stages {
        let ahead = stage.ahead;
        stage.ahead = Ahead::default();
        expose(&mut stage.backward, ahead);
        if let Some(split) = &mut stage.split {
            expose(&mut split.input, ahead);
        }
        if let Some(last) = &mut stage.cool_down {
            let ahead = std::mem::take(&mut last.ahead);
            expose(&mut last.backward, ahead);
            if let Some(input) = &mut last.input {
                expose(input, ahead);
            }
        }
    }
    costs
}

fn expose(backward: &mut Vec<Part>, ahead: Ahead) {
    let mut exposed = vec![recompute(ahead.work.0)];
    for mut part in std::mem::take(backward) {
        let mut work = Nanos(0);
        if let Part::Collective { recompute, .. } = &mut part {
            std::mem::swap(&mut work, recompute);
        }
        // What the bytes are is another question.
        exposed.extend([moving(part, 0, 0), recompute(work.0)]);
    }
    *backward = exposed;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_engine_and_the_naive_simulator_agree_on_every_figure((schedule, costs) in cases()) {
        let found = simulate(&schedule, &costs);
        match naive::simulate(&schedule, &costs) {
            Some(mut expected) => {
                for stage in &mut expected {
                    stage.hidden.retain(|_, time| *time > 0);
                }
                let found = figures(&found.unwrap());
                prop_assert_eq!(found, expected, "{}", schedule);
            }
            None => {
                let stuck = matches!(found, Err(SimError::Schedule(ScheduleError::Deadlock { .. })));
                prop_assert!(stuck, "{:?}", found);
            }
        }
    }

    #[test]
    fn the_critical_path_is_contiguous_and_takes_the_step_time((schedule, costs) in cases()) {
        let Ok((report, timeline)) = record(&schedule, &costs) else {
            return Ok(());
        };
        let path = timeline.critical_path().unwrap();
        let mut at = Nanos(0);
        for span in path {
            prop_assert_eq!(span.begin, at);
            prop_assert!(span.begin < span.end);
            at = span.end;
            // Every span is in the timeline.
            match (span.place, span.kind) {
                (Place::Stage(stage), PathKind::Work(kind)) => {
                    let main = &timeline.stages[stage.0].main;
                    let is_it = |s: &super::super::timeline::Span| {
                        (s.begin, s.end, s.kind) == (span.begin, span.end, kind)
                    };
                    prop_assert!(main.iter().any(is_it) && !kind.is_wait());
                }
                (Place::Channel { from, to, cargo }, kind) => {
                    let track = timeline.channels.iter().find(|c| (c.from, c.to, c.cargo) == (from, to, cargo));
                    let instants = |m: &super::super::timeline::Message| match kind {
                        PathKind::Wire => (m.begin, m.left),
                        _ => (m.left, m.arrive),
                    };
                    let mut messages = track.unwrap().messages.iter().map(instants);
                    prop_assert!(messages.any(|m| m == (span.begin, span.end)));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(at, report.step);
        prop_assert_eq!(timeline.step(), report.step);
    }

    #[test]
    fn hiding_recompute_never_makes_a_step_longer_and_loses_none_of_it((schedule, costs) in cases()) {
        let exposed = all_exposed(&costs);
        match (simulate(&schedule, &costs), simulate(&schedule, &exposed)) {
            (Ok(hidden), Ok(exposed)) => {
                prop_assert!(hidden.step <= exposed.step);
                prop_assert_eq!(exposed.hidden(), Nanos(0));
                for (one, other) in hidden.stages.iter().zip(&exposed.stages) {
                    prop_assert_eq!(one.hidden().0 + one.exposed.0, other.exposed.0);
                }
            }
            (hidden, exposed) => prop_assert_eq!(hidden, exposed),
        }
    }

    #[test]
    fn recording_changes_no_figure_and_the_tracks_add_up_to_it((schedule, costs) in cases()) {
        let plain = simulate(&schedule, &costs);
        let Ok((report, timeline)) = record(&schedule, &costs) else {
            prop_assert!(plain.is_err());
            return Ok(());
        };
        prop_assert_eq!(&plain.unwrap(), &report);
        for (track, stage) in timeline.stages.iter().zip(&report.stages) {
            let mut at = Nanos(0);
            let (mut busy, mut exposed, mut waiting) = (0, 0, 0);
            for span in &track.main {
                prop_assert!(span.begin == at && span.end > at, "{:?}", track.main);
                at = span.end;
                let time = span.end.0 - span.begin.0;
                *if span.kind.is_wait() { &mut waiting } else { &mut busy } += time;
                exposed += if span.kind == SpanKind::Exposed { time } else { 0 };
            }
            let idle: u64 = stage.waiting.iter().map(|(_, time)| time.0).sum();
            prop_assert_eq!(at, stage.end);
            prop_assert_eq!((busy, exposed, waiting), (stage.busy().0, stage.exposed.0, idle));
            prop_assert_eq!(track.peak(), stage.peak);
            prop_assert!(track.memory.windows(2).all(|pair| pair[0].at <= pair[1].at));
            prop_assert!(track.beside.windows(2).all(|pair| pair[0].end <= pair[1].begin));
        }
        for (track, channel) in timeline.channels.iter().zip(&report.channels) {
            let busy = track.messages.iter().map(|m| m.left.0 - m.begin.0);
            prop_assert_eq!(busy.sum::<u64>(), channel.busy.0);
            prop_assert!(track.messages.windows(2).all(|pair| pair[0].left <= pair[1].begin));
        }
        let file = serde_json::to_string(&(&report, &timeline, &costs)).unwrap();
        let read: (Report, super::super::Timeline, Costs) = serde_json::from_str(&file).unwrap();
        prop_assert_eq!(read, (report, timeline, costs));
    }

    /// All but the ascending order of backwards, which no time depends on.
    #[test]
    fn what_is_timed_is_what_the_validator_accepts(
        (schedule, costs) in cases(),
        stage in 0usize..5,
        places in (0usize..1000, 0usize..1000),
        breaks in any::<bool>(),
    ) {
        let schedule: Schedule = if breaks { broken(schedule, stage, places) } else { schedule };
        let found = simulate(&schedule, &costs);
        let trains = schedule.stages.iter().flatten().any(|a| a.makes_gradient());
        let reduces = schedule.stages.iter().flatten().any(|a| a.is_reduction());
        let rules = Rules {
            backward: trains,
            replicas: if reduces { 2 } else { 1 },
            ..Kind::GPipe.rules(costs.mailbox_capacity)
        };
        match validate(&schedule, &rules) {
            Err(ScheduleError::Order { action, needs, .. }) if only_ascends(action, needs) => {}
            // Stuck is stuck, at the same places.
            Err(stuck @ ScheduleError::Deadlock { .. }) => {
                prop_assert_eq!(found, Err(SimError::Schedule(stuck)));
            }
            accepted => prop_assert_eq!(accepted.is_ok(), found.is_ok(), "{:?} {:?}", accepted, found),
        }
    }
}
