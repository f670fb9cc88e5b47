//! What a simulated step is made of, in words and tables.

use std::collections::BTreeMap;

use lynx_burn::plan::cluster::Window;
use lynx_burn::plan::sim::timeline::SpanKind;
use lynx_burn::plan::sim::{PathKind, PathSpan, PerWindow, Place, Report, StageReport, Timeline};
use lynx_burn::units::{Bytes, Nanos};

use crate::progress::say;
use crate::table::{Table, duration, percent};

/// Says what a step is made of.
pub(super) fn tell(report: &Report, timeline: &Timeline) {
    say(format_args!(
        "bubble    {} of all stages' time, waits for messages included",
        percent(Some(report.bubble_ratio()))
    ));
    say(match report.hidden_fraction() {
        None => "recompute none".to_owned(),
        share => format!(
            "recompute {} hidden, {} exposed: {} hidden",
            duration(report.hidden()),
            duration(report.exposed()),
            percent(share)
        ),
    });
    if let Some(path) = timeline.critical_path() {
        say(format_args!("critical  {}", critical(&path, report.step)));
    }
    say(format_args!("\n{}\n", stages(report)));
    if let Some(windows) = windows(report) {
        say(format_args!("{windows}\n"));
    }
}

fn stages(report: &Report) -> Table {
    let has_bytes = report.peak().1 > Bytes(0);
    let reduces = |stage: &StageReport| stage.reduction > Nanos::ZERO;
    let has_replicas = report.stages.iter().any(reduces);
    let mut headings = vec![
        "stage",
        "forward",
        "backward",
        "collectives",
        "exposed",
        "hidden",
    ];
    headings.extend(has_replicas.then_some("replicas"));
    headings.push("stands still");
    headings.extend(has_bytes.then_some("peak"));
    let mut table = Table::new(headings);
    for (index, stage) in report.stages.iter().enumerate() {
        // From its last action to the end of the step it stands still too.
        let still = report.step.saturating_sub(stage.busy());
        let times = [
            stage.forward,
            stage.backward,
            stage.collective,
            stage.exposed,
        ];
        let mut cells = vec![index.to_string()];
        let reduction = has_replicas.then_some(stage.reduction);
        let rest = [stage.hidden()].into_iter().chain(reduction).chain([still]);
        cells.extend(times.into_iter().chain(rest).map(time));
        cells.extend(has_bytes.then(|| stage.peak.to_string()));
        table.row(cells);
    }
    table
}

/// Where recompute is hidden, and what stages wait for: the windows in which there is something.
fn windows(report: &Report) -> Option<Table> {
    type Of = fn(&StageReport) -> &PerWindow<Nanos>;
    let kinds: [(&str, Of); 2] = [
        ("hidden", |stage| &stage.hidden),
        ("waits", |stage| &stage.waiting),
    ];
    let columns = kinds.into_iter().flat_map(|(name, of)| {
        let windows = Window::ALL.into_iter();
        windows.map(move |window| (format!("{name} {window}"), of, window))
    });
    let occurs = |of: Of, window| report.stages.iter().any(|stage| of(stage)[window].0 > 0);
    let columns: Vec<_> = columns
        .filter(|&(_, of, window)| occurs(of, window))
        .collect();
    let headings = columns.iter().map(|(name, ..)| name.clone());
    let mut table = Table::new(std::iter::once("stage".to_owned()).chain(headings));
    for (index, stage) in report.stages.iter().enumerate() {
        let times = columns
            .iter()
            .map(|&(_, of, window)| time(of(stage)[window]));
        table.row(std::iter::once(index.to_string()).chain(times));
    }
    (!columns.is_empty()).then_some(table)
}

fn time(time: Nanos) -> String {
    match time {
        Nanos::ZERO => "-".to_owned(),
        some => duration(some),
    }
}

/// What the critical path consists of, the most first, and the stage it is on for longest.
fn critical(path: &[PathSpan], step: Nanos) -> String {
    let mut kinds: BTreeMap<&str, Nanos> = BTreeMap::new();
    let mut places: BTreeMap<usize, Nanos> = BTreeMap::new();
    for span in path {
        let time = span.end.saturating_sub(span.begin);
        let kind = kinds.entry(word(span.kind)).or_default();
        *kind = kind.saturating_add(time);
        if let Place::Stage(stage) = span.place {
            let place = places.entry(stage.0).or_default();
            *place = place.saturating_add(time);
        }
    }
    let share = |time: Nanos| percent(Some(time.0 as f64 / step.0.max(1) as f64));
    let mut kinds: Vec<(&str, Nanos)> = kinds.into_iter().collect();
    // What rounds to nothing is left out.
    kinds.retain(|&(_, time)| time.0.saturating_mul(2000) >= step.0);
    kinds.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
    let kinds = kinds
        .iter()
        .map(|&(kind, time)| format!("{} {kind}", share(time)));
    let mut text = kinds.collect::<Vec<_>>().join(", ");
    if let Some((stage, time)) = places.into_iter().rev().max_by_key(|(_, time)| *time) {
        text += &format!("; {} of it on stage {stage}", share(time));
    }
    text
}

fn word(kind: PathKind) -> &'static str {
    match kind {
        PathKind::Work(SpanKind::Forward) => "forward",
        PathKind::Work(SpanKind::Backward | SpanKind::Weight) => "backward",
        PathKind::Work(SpanKind::Collective(_)) => "collectives",
        PathKind::Work(SpanKind::Reduction) => "gradients over replicas",
        PathKind::Work(SpanKind::Exposed | SpanKind::Hidden(_)) => "exposed recompute",
        PathKind::Work(SpanKind::Wait { .. }) => "waits",
        PathKind::Wire => "messages",
        PathKind::Latency => "latency of links",
    }
}

#[cfg(test)]
mod tests {
    use lynx_burn::plan::schedule::Kind;

    use super::super::even;
    use super::*;

    #[test]
    fn the_critical_path_of_even_stages_is_told_in_a_few_words() {
        // 1F1B, 2 stages, 2 micro-batches: the step is (m + p - 1) (f + b) = 9 ms, all of it on
        // the path: three forwards and three backwards.
        let (report, timeline) = even(Kind::OneFOneB, 2, 2).expect("a step");
        assert_eq!(report.step, Nanos(9_000_000));
        let path = timeline.critical_path().expect("a path");
        let text = critical(&path, report.step);
        assert!(
            text.starts_with("66.7 % backward, 33.3 % forward; "),
            "{text}"
        );
    }

    #[test]
    fn windows_have_a_column_if_something_is_in_them_on_any_stage() {
        let mut report = Report {
            step: Nanos(1),
            stages: vec![StageReport::default(); 2],
            channels: Vec::new(),
        };
        assert!(windows(&report).is_none());
        report.stages[1].hidden.b1 = Nanos(8_000_000);
        report.stages[0].waiting.recv = Nanos(1_500);
        let text = windows(&report).expect("two windows").to_string();
        let lines: Vec<&str> = text.lines().collect();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(lines[0]), "stage hidden B1 waits RECV");
        assert_eq!(words(lines[1]), "0 - 1.500 µs");
        assert_eq!(words(lines[2]), "1 8.000 ms -");
    }

    #[test]
    fn standing_still_after_the_last_action_counts() {
        let report = even(Kind::OneFOneB, 2, 1).expect("a step").0;
        // Stage 1 is done after 1 + 3 ms, and stage 0 goes on for 2 ms.
        assert_eq!(report.step, Nanos(6_000_000));
        let text = stages(&report).to_string();
        let last = text.lines().last().expect("stage 1");
        assert!(last.trim_end().ends_with("3.000 ms"), "{text}");
    }
}
