//! `gpt simulate`: times a plan's step and draws it.

mod report;

use lynx_burn::plan::cluster::FileError;
use lynx_burn::plan::planner::{Plan, PlanError, evaluate};
use lynx_burn::plan::schedule::{Kind, ScheduleError, transfers};
use lynx_burn::plan::sim::costs::StageCosts;
use lynx_burn::plan::sim::{self, Costs, Report, SimError, Timeline, svg, trace};
use lynx_burn::units::Nanos;

use crate::cli::SimulateArgs;
use crate::files::{self, WriteError};
use crate::plan::{describe, throughput};
use crate::progress::say;
use crate::table::duration;

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
            say(format_args!("step      {}", duration(report.step)));
            (report, timeline, title, None)
        }
    };
    report::tell(&report, &timeline);
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
        false => format!(" (the file says {})", duration(plan.step.time)),
    };
    say(format_args!(
        "step      {}{known}{}",
        duration(report.step),
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
