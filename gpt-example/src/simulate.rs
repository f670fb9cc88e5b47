//! `gpt simulate`: times a plan's step and draws it.

use std::collections::BTreeMap;

use lynx_burn::plan::cluster::{FileError, Window};
use lynx_burn::plan::planner::{Plan, PlanError, evaluate};
use lynx_burn::plan::schedule::{Kind, ScheduleError, transfers};
use lynx_burn::plan::sim::costs::StageCosts;
use lynx_burn::plan::sim::timeline::SpanKind;
use lynx_burn::plan::sim::{
    self, Costs, PathKind, PathSpan, PerWindow, Place, Report, SimError, StageReport, Timeline,
    svg, trace,
};
use lynx_burn::units::{Bytes, Nanos};

use crate::cli::SimulateArgs;
use crate::files::{self, WriteError};
use crate::plan::{describe, throughput};
use crate::progress::say;
use crate::table::{Table, percent};

/// A recorded step takes some kilobytes a pass.
const MOST_PASSES: u128 = 1 << 20;

/// A step that was not simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// No plan in a file.
    #[error(transparent)]
    File(#[from] FileError<PlanError>),
    /// A plan without a step.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A schedule without a step.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// More than anyone can look at.
    #[error("{passes} forwards are too many to draw: at most {MOST_PASSES}")]
    TooLong {
        /// Of all stages, micro-batches and chunks.
        passes: u128,
    },
    /// A picture or trace cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Simulates, says what came of it, and draws it.
///
/// # Errors
///
/// If there is no such plan, or a file cannot be written.
pub fn run(args: &SimulateArgs) -> Result<(), SimulateError> {
    let (report, timeline, title, budget) = match (&args.plan, args.schedule) {
        (Some(path), _) => {
            let plan = Plan::read(path)?;
            let (report, timeline) = plan.forecast()?.record()?;
            introduce(&plan, &report)?;
            let title = format!("{} by {}", plan.setup.profile.name, plan.planner);
            (report, timeline, title, Some(plan.setup.budget))
        }
        (None, kind) => {
            let kind = kind.unwrap_or(Kind::OneFOneB);
            let (report, timeline) = even(kind, args.pp, args.micro_batches)?;
            let title = format!("{kind} with even stages");
            say(format_args!(
                "schedule  {kind}, {} stages, {} micro-batches; a forward takes 1 ms, a backward 2 ms",
                args.pp, args.micro_batches
            ));
            say(format_args!("step      {}", report.step));
            (report, timeline, title, None)
        }
    };
    summarise(&report, &timeline);
    if let Some(path) = &args.svg {
        let options = svg::Options {
            title: format!("{title}: one step"),
            budget,
            ..svg::Options::default()
        };
        let picture = svg::draw(&timeline, &options);
        files::write(path, |out| out.write_all(picture.as_bytes()))?;
        say(format_args!("picture   {}", path.display()));
    }
    if let Some(path) = &args.trace {
        files::write(path, |mut out| trace::write(&timeline, &mut out))?;
        say(format_args!("trace     {}", path.display()));
    }
    Ok(())
}

fn even(
    kind: Kind,
    stages: usize,
    micro_batches: usize,
) -> Result<(Report, Timeline), SimulateError> {
    let chunks = kind.chunks();
    let units = [stages, micro_batches, chunks].map(|count| count as u128);
    let passes = units.into_iter().product();
    if passes > MOST_PASSES {
        return Err(SimulateError::TooLong { passes });
    }
    let schedule = transfers::eager(&kind.generate(stages, micro_batches)?);
    let share = |millis: u64| Nanos(millis * 1_000_000 / chunks as u64);
    let stage = StageCosts::plain_split(share(1), share(1), share(1));
    let all = vec![stage; stages * chunks];
    let mut costs = Costs::in_shape(schedule.shape(), all);
    costs.mailbox_capacity = micro_batches * chunks;
    Ok(sim::record(&schedule, &costs)?)
}

fn introduce(plan: &Plan, report: &Report) -> Result<(), PlanError> {
    say(format_args!(
        "plan      {}: {}",
        plan.planner,
        describe(&plan.setup)
    ));
    let known = match report.step == plan.step.time {
        true => String::new(),
        false => format!(" (the file says {})", plan.step.time),
    };
    say(format_args!(
        "step      {}{known}{}",
        report.step,
        throughput(&plan.setup, report.step.seconds())
    ));
    // Of a plan that was edited, the figures in the file need not hold any more.
    for (problem, stage) in plan.problems()?.iter().zip(&plan.stages) {
        if let Err(broken) = evaluate(problem, &stage.plan) {
            say(format_args!("warning   stage {}: {broken}", problem.stage));
        }
    }
    Ok(())
}

fn summarise(report: &Report, timeline: &Timeline) {
    say(format_args!(
        "bubble    {} of all stages' time, waits for messages included",
        percent(Some(report.bubble_ratio()))
    ));
    say(format_args!(
        "recompute {} hidden, {} exposed: {} hidden",
        report.hidden(),
        report.exposed(),
        percent(report.hidden_fraction())
    ));
    if let Some(path) = timeline.critical_path() {
        say(format_args!("critical  {}", critical(&path, report.step)));
    }
    say(format_args!("\n{}\n", stages(report)));
}

fn stages(report: &Report) -> Table {
    let has_bytes = report.peak().1 > Bytes(0);
    let mut headings = vec![
        "stage",
        "forward",
        "backward",
        "collectives",
        "exposed",
        "hidden",
    ];
    headings.extend(["waits", "peak"].iter().take(if has_bytes { 2 } else { 1 }));
    let mut table = Table::new(headings);
    for (index, stage) in report.stages.iter().enumerate() {
        let StageReport {
            forward,
            backward,
            collective,
            exposed,
            ..
        } = stage;
        let times = [forward, backward, collective, exposed];
        let mut cells = vec![index.to_string()];
        cells.extend(times.map(Nanos::to_string));
        cells.push(by_window(&stage.hidden));
        cells.push(by_window(&stage.waiting));
        if has_bytes {
            cells.push(stage.peak.to_string());
        }
        table.row(cells);
    }
    table
}

/// The parts that are not nothing: `12.0 ms (F1 4.0 ms, B1 8.0 ms)`.
fn by_window(times: &PerWindow<Nanos>) -> String {
    let parts: Vec<(Window, Nanos)> = times.iter().filter(|(_, time)| time.0 > 0).collect();
    match parts[..] {
        [] => "-".to_owned(),
        [(window, time)] => format!("{time} {window}"),
        _ => {
            let all: Nanos = parts.iter().map(|(_, time)| *time).sum();
            let parts = parts
                .iter()
                .map(|(window, time)| format!("{time} {window}"));
            format!("{all}: {}", parts.collect::<Vec<_>>().join(", "))
        }
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
        PathKind::Work(SpanKind::Exposed | SpanKind::Hidden(_)) => "exposed recompute",
        PathKind::Work(SpanKind::Wait { .. }) => "waits",
        PathKind::Wire => "messages",
        PathKind::Latency => "latency of links",
    }
}

#[cfg(test)]
mod tests {
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
    fn windows_are_listed_if_something_is_in_them() {
        let mut times = PerWindow::default();
        assert_eq!(by_window(&times), "-");
        times.f1 = Nanos(4_000_000);
        assert_eq!(by_window(&times), "4.0 ms F1");
        times.b1 = Nanos(8_000_000);
        assert_eq!(by_window(&times), "12.0 ms: 4.0 ms F1, 8.0 ms B1");
    }
}
