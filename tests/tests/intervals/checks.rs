//! What must hold of the intervals of any run.

use std::time::{Duration, Instant};

use lynx_burn::BackwardReport;
use lynx_burn::plan::sim::Window;
use lynx_burn::plan::sim::timeline::{Awaited, SpanKind, Timeline};
use lynx_burn::units::Nanos;

use super::seen::{Run, Time};

/// The time in both.
pub(crate) fn shared(a: &Time, b: &Time) -> Duration {
    let (begin, end): (Instant, Instant) = (a.start.max(b.start), a.end.min(b.end));
    end.saturating_duration_since(begin)
}

fn inside(inner: &Time, outer: &Time) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn assert_apart(what: &str, mut all: Vec<Time>) {
    all.sort_by_key(|time| (time.start, time.end));
    for pair in all.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{what}: {pair:?} overlap");
    }
}

/// Everything below, of every worker.
pub(crate) fn hold(report: &BackwardReport, run: &Run, timeline: &Timeline) {
    for stage in &report.stages {
        let own = run.of((stage.stage, stage.rank));
        nothing_overlaps(&own);
        hidden_is_what_windows_and_recompute_share(&own, |window| stage.times.hidden[window]);
        hidden_behind_a_message_lies_on_its_way(&own);
        let exposed = own.recomputes.iter().filter(|one| one.window.is_none());
        let exposed: Duration = exposed.map(|one| one.end - one.begin).sum();
        assert_eq!(Nanos::from(exposed), stage.times.exposed);
    }
    drawn(timeline);
}

/// One thread does one thing at a time: an action, inside it a wait or sums or exposed recompute;
/// hidden recompute inside those.
fn nothing_overlaps(own: &Run) {
    let actions: Vec<Time> = own.actions.iter().map(|one| one.begin..one.end).collect();
    let recompute = |hidden: bool| {
        let all = own.recomputes.iter();
        let all = all.filter(move |one| one.window.is_some() == hidden);
        all.map(|one| one.begin..one.end)
    };
    let windows = own.windows().into_iter().map(|(_, time)| time);
    let lane: Vec<Time> = windows.chain(recompute(false)).collect();
    for time in lane.iter().cloned().chain(recompute(true)) {
        let within = actions.iter().any(|action| inside(&time, action));
        assert!(within, "{time:?} is in no action");
    }
    assert_apart("actions", actions);
    assert_apart("waits, sums and exposed recompute", lane);
    assert_apart("hidden recompute", recompute(true).collect());
}

/// To the nanosecond: both are told with the same clock.
fn hidden_is_what_windows_and_recompute_share(own: &Run, reported: impl Fn(Window) -> Nanos) {
    let windows = own.windows();
    for one in &own.recomputes {
        let time = one.begin..one.end;
        if let Some(window) = one.window {
            let mut of_kind = windows.iter().filter(|(kind, _)| *kind == window);
            let lies = of_kind.any(|(_, outer)| inside(&time, outer));
            assert!(lies, "{one:?} lies in no {window}");
        }
    }
    for kind in Window::ALL {
        let of_kind = windows.iter().filter(|(window, _)| *window == kind);
        let pairs = of_kind.flat_map(|(_, outer)| {
            let all = own.recomputes.iter();
            all.map(move |one| shared(&(one.begin..one.end), outer))
        });
        assert_eq!(
            Nanos::from(pairs.sum::<Duration>()),
            reported(kind),
            "{kind}"
        );
    }
}

/// A message's way is told by its sender, another thread: recompute that counts as hidden behind it
/// runs while it is on its way; recompute in a bubble, before.
fn hidden_behind_a_message_lies_on_its_way(own: &Run) {
    for one in &own.recomputes {
        let time = one.begin..one.end;
        let mut around = own.waits.iter();
        let Some(wait) = around.find(|wait| inside(&time, &(wait.begin..wait.end))) else {
            continue;
        };
        let Awaited::Message { from, cargo, .. } = wait.awaited else {
            // Room in a mailbox.
            continue;
        };
        let mut messages = own.messages.iter().filter(|message| {
            (message.from, message.cargo, message.micro_batch) == (from, cargo, wait.micro_batch)
        });
        let message = messages.next().expect("it was sent");
        assert!(messages.next().is_none(), "once");
        match wait.window {
            Window::Recv => assert!(inside(&time, &(message.begin..message.arrive)), "{one:?}"),
            _ => assert!(time.end <= message.begin, "{one:?}"),
        }
    }
}

/// The same in the form that is drawn: no gap and no overlap in the main lane, and beside it only
/// what lies inside a span of its window.
fn drawn(timeline: &Timeline) {
    for track in &timeline.stages {
        let mut at = Nanos(0);
        for span in &track.main {
            assert_eq!(span.begin, at, "{span:?}");
            assert!(span.end > span.begin, "{span:?}");
            at = span.end;
        }
        for span in &track.beside {
            let SpanKind::Hidden(hides) = span.kind else {
                panic!("{span:?} is beside the main lane");
            };
            let around = track.main.iter().any(|outer| {
                let kind = match outer.kind {
                    SpanKind::Collective(window) | SpanKind::Wait { window, .. } => Some(window),
                    _ => None,
                };
                kind == Some(hides) && outer.begin <= span.begin && span.end <= outer.end
            });
            assert!(around, "{span:?} lies in nothing of its kind");
        }
    }
}
