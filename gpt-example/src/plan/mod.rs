//! `gpt plan`: decides what each stage recomputes, and where.

mod compare;
mod error;
mod fitting;
mod links;
mod measured;
mod source;
mod stages;

use std::io;
use std::path::Path;

use lynx_burn::plan::planner::{Plan, Setup, Strategy};

pub use error::PlanningError;

pub(crate) use self::fitting::Wording;
pub(crate) use self::links::Links;
pub(crate) use self::measured::{Subject, cores_of_each};
pub(crate) use self::source::{Source, here};
use crate::cli::PlanArgs;
use crate::files;
use crate::progress::say;
use crate::table::{duration, percent};

/// Plans as asked, writes what is to be written, and says what came of it.
///
/// # Errors
///
/// If the options make no sense, nothing fits the budget, or a file cannot be written.
pub fn run(args: &PlanArgs) -> Result<(), PlanningError> {
    let source = Source::new(args)?;
    if let Some(measured) = &source.measured {
        say(measured);
    }
    if let Some(path) = &args.output.write_profile {
        write(path, &source.profile.to_json()?)?;
    }
    if let Some(path) = &args.output.write_cluster {
        write(path, &source.cluster.to_json()?)?;
    }
    let setup = source.setup(args);
    let limit = args.setup.time_limit;
    let strategy = Strategy::named(&args.setup.strategy, limit)?;
    let plan = decide(&source, &setup, &strategy, Wording::Plan)?;
    if let Some(path) = &args.output.output {
        write(path, &plan.to_json()?)?;
    }
    tell(&plan, &strategy)?;
    if !args.output.no_compare {
        say("");
        compare::compare(&setup, &plan, limit);
    }
    if let Some(path) = &args.output.output {
        say(format_args!("\nwritten to {}", path.display()));
    }
    Ok(())
}

/// Plans, or says what would fit in the options of the program that was asked.
///
/// # Errors
///
/// If nothing fits the budget, or the setup is none.
pub(crate) fn decide(
    source: &Source,
    setup: &Setup,
    strategy: &Strategy,
    wording: Wording,
) -> Result<Plan, PlanningError> {
    strategy.plan(setup).map_err(|error| {
        let told = fitting::explain(source, setup, strategy, (&error, wording));
        told.map_or(PlanningError::Plan(error), PlanningError::Infeasible)
    })
}

/// Says what was decided.
///
/// # Errors
///
/// If the plan contradicts its own setup.
pub(crate) fn tell(plan: &Plan, strategy: &Strategy) -> Result<(), PlanningError> {
    summarise(plan, strategy);
    say(format_args!("\n{}", stages::table(plan)?));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), files::WriteError> {
    files::write(path, |out: &mut dyn io::Write| {
        out.write_all(text.as_bytes())
    })
}

/// The setup in one line, for plans and simulations.
pub(crate) fn describe(setup: &Setup) -> String {
    let profile = &setup.profile;
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let micro_batches = match (setup.micro_batches, profile.tokens) {
        (1, Some(tokens)) => format!("1 micro-batch of {tokens} tokens"),
        (count, Some(tokens)) => format!("{count} micro-batches of {tokens} tokens"),
        (1, None) => "1 micro-batch".to_owned(),
        (count, None) => format!("{count} micro-batches"),
    };
    let (stages, ranks) = (setup.stages as u64, profile.tensor_parallel as u64);
    format!(
        "{}, {} layers, on {}: {stages} stage{} of {ranks} rank{}, {micro_batches}, {}, {} a device",
        profile.name,
        profile.layer_count(),
        setup.cluster.name,
        plural(stages),
        plural(ranks),
        setup.schedule,
        setup.budget,
    )
}

/// Tokens a second, where tokens are known.
pub(crate) fn throughput(setup: &Setup, step_seconds: f64) -> String {
    let tokens = setup.profile.tokens.filter(|_| step_seconds > 0.0);
    tokens.map_or(String::new(), |tokens| {
        let all = tokens as f64 * setup.micro_batches as f64;
        format!(", {:.0} tokens/s", all / step_seconds)
    })
}

fn summarise(plan: &Plan, strategy: &Strategy) {
    let (setup, step) = (&plan.setup, &plan.step);
    say(format_args!("model     {}", describe(setup)));
    say(format_args!(
        "strategy  {}: {}; found in {}",
        strategy.name(),
        strategy.about(),
        plan.search
    ));
    say(format_args!(
        "step      {}{}, stages stand still for {} of it",
        duration(step.time),
        throughput(setup, step.time.seconds()),
        percent(Some(step.bubble_ratio)),
    ));
    say(match step.hidden_fraction() {
        None => "recompute none".to_owned(),
        Some(_) => format!(
            "recompute {} hidden, {} exposed, all stages together",
            duration(step.hidden),
            duration(step.exposed)
        ),
    });
    if setup.extra_in_flight.iter().any(|&extra| extra > 0) {
        say(format_args!(
            "in flight forwards run ahead: {:?} more micro-batches than {} asks for, by stage",
            setup.extra_in_flight, setup.schedule
        ));
    }
}
