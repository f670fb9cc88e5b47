//! A plan beside those of all other strategies.

use std::time::Duration;

use lynx_burn::plan::planner::{DealError, Plan, PlanError, Setup, Strategy, unlimited};

use super::stages::peak;
use crate::progress::say;
use crate::table::{duration, percent};

/// Says, line by line because programs may take their time, what every strategy makes of a setup.
pub(super) fn compare(setup: &Setup, chosen: &Plan, limit: Duration) {
    let cells = [
        "strategy", "step", "relative", "peak", "hidden", "search", "gap",
    ];
    say(line(cells.map(str::to_owned)));
    for strategy in Strategy::all(limit) {
        if strategy.name() == chosen.planner {
            say(row(chosen, chosen));
        } else {
            tell(strategy.name(), strategy.plan(setup), chosen);
        }
    }
    tell("unlimited memory", unlimited(setup), chosen);
}

fn tell(name: &str, plan: Result<Plan, PlanError>, chosen: &Plan) {
    match plan {
        Ok(plan) => say(row(&plan, chosen)),
        Err(PlanError::Deal(DealError::Infeasible { stage, missing, .. })) => {
            say(format_args!(
                "{name:<17} does not fit: stage {stage} is {missing} short"
            ));
        }
        Err(error) => say(format_args!("{name:<17} {error}")),
    }
}

fn row(plan: &Plan, chosen: &Plan) -> String {
    let step = plan.step.time.seconds();
    let relative = step / chosen.step.time.seconds().max(1e-12);
    line([
        plan.planner.clone(),
        duration(plan.step.time),
        format!("{relative:.3}"),
        peak(plan).to_string(),
        percent(plan.step.hidden_fraction()),
        plan.search.to_string(),
        percent(gap(plan)),
    ])
}

fn line(cells: [String; 7]) -> String {
    let [name, step, relative, peak, hidden, search, gap] = cells;
    format!("{name:<17}{step:>10}{relative:>10}{peak:>12}{hidden:>9}{search:>10}{gap:>8}")
}

/// How far exposed recompute may be from the least of its kind on the worst stage; `None` where
/// some stage has no proof.
fn gap(plan: &Plan) -> Option<f64> {
    let problems = plan.problems().ok()?;
    let stages = plan.stages.iter().zip(&problems);
    let gaps: Option<Vec<f64>> = stages.map(|(stage, problem)| stage.gap(problem)).collect();
    gaps?.into_iter().reduce(f64::max)
}
