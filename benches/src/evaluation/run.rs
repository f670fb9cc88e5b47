//! Plans and simulates one setting under every strategy.

use std::time::Duration;

use lynx_burn::plan::cluster::Window;
use lynx_burn::plan::planner::{DealError, Plan, PlanError, Strategy, unlimited};
use lynx_burn::plan::profile::Attention;
use serde::Serialize;

use super::settings::{MICRO_BATCHES, Setting};

/// What a solver may take for a stage.
pub const LIMIT: Duration = Duration::from_secs(2);

/// One strategy in one setting.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The model.
    pub model: &'static str,
    /// The machines.
    pub cluster: &'static str,
    /// Ranks that share a stage.
    pub tp: usize,
    /// Stages.
    pub pp: usize,
    /// Samples of a micro-batch.
    pub micro_batch: u64,
    /// Micro-batches of a step.
    pub micro_batches: u64,
    /// Whether the scores of attention are stored.
    pub attention: Attention,
    /// Whether weights' gradients are computed beside collectives.
    pub weight_gradients_beside: bool,
    /// The strategy; "unlimited" is the bound.
    pub strategy: String,
    /// Whether it has a plan within the device's memory.
    pub feasible: bool,
    /// The simulated step.
    pub step_ms: Option<f64>,
    /// The most that a device holds.
    pub peak_bytes: Option<u64>,
    /// Share of recompute in windows.
    pub hidden_fraction: Option<f64>,
    /// Recompute on the critical path of the stages, summed.
    pub exposed_ms: Option<f64>,
    /// Finding the plan, partition, simulation and all.
    pub search_ms: Option<f64>,
    /// How far exposed time may be from the best; the worst stage's.
    pub gap: Option<f64>,
    /// Forwards that run ahead, stage by stage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_in_flight: Vec<usize>,
    /// What is missing, where it is infeasible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_bytes: Option<u64>,
}

/// A setting with its rows.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What was planned.
    pub setting: Setting,
    /// One for each strategy, and the bound.
    pub rows: Vec<Row>,
    /// HEU's step without one kind of window, in milliseconds.
    pub without: Vec<(Window, f64)>,
    /// What HEU's plan hides in each kind of window, all stages together, in milliseconds.
    pub hidden_in: Vec<(Window, f64)>,
}

/// The name of the bound.
pub const UNLIMITED: &str = "unlimited";
/// HEU without forwards that run ahead.
pub const SHALLOW: &str = "heu-not-ahead";
/// The best without windows, with forwards that run ahead: what depth alone gives.
pub const DEEP: &str = "adapipe-ahead";

impl Compared {
    /// The step of a strategy, if it has a plan.
    pub fn step(&self, strategy: &str) -> Option<f64> {
        self.row(strategy)?.step_ms
    }

    /// The row of a strategy.
    pub fn row(&self, strategy: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.strategy == strategy)
    }
}

/// Whether memory binds: retaining everything does not fit, but something does.
pub fn binds(setting: &Setting) -> bool {
    let fits = |name| Strategy::named(name, LIMIT).is_ok_and(|s| s.plan(&setting.setup).is_ok());
    !fits("none") && (fits("full") || fits("full-uniform"))
}

/// All strategies; OPT, which is slow, only if asked for.
pub fn compare(setting: &Setting, with_opt: bool) -> Compared {
    let setup = &setting.setup;
    let mut rows = Vec::new();
    let mut hidden_in = Vec::new();
    for strategy in Strategy::all(LIMIT) {
        if strategy.name() == "opt" && !with_opt {
            continue;
        }
        let plan = strategy.plan(setup);
        if let ("heu", Ok(plan)) = (strategy.name(), &plan) {
            hidden_in = hidden(plan);
        }
        rows.push(row(setting, strategy.name(), plan));
    }
    rows.push(row(setting, UNLIMITED, unlimited(setup)));
    for (name, origin, deepening) in [(SHALLOW, "heu", false), (DEEP, "adapipe", true)] {
        if let Ok(strategy) = Strategy::named(origin, LIMIT) {
            let plan = strategy.deepening(deepening).plan(setup);
            rows.push(row(setting, name, plan));
        }
    }
    let mut without = Vec::new();
    for window in Window::ALL {
        let mut setup = setup.clone();
        setup.windows.retain(|kept| *kept != window);
        let plan = Strategy::named("heu", LIMIT).map(|heu| heu.plan(&setup));
        if let Ok(Ok(plan)) = plan {
            without.push((window, plan.step.time.seconds() * 1e3));
        }
    }
    Compared {
        setting: setting.clone(),
        rows,
        without,
        hidden_in,
    }
}

fn hidden(plan: &Plan) -> Vec<(Window, f64)> {
    let report = plan.forecast().ok().and_then(|f| f.report().ok());
    let stages = report.map(|report| report.stages).unwrap_or_default();
    let of = |window| {
        stages
            .iter()
            .map(|s| s.hidden[window].seconds() * 1e3)
            .sum()
    };
    Window::ALL.map(|window| (window, of(window))).to_vec()
}

fn row(setting: &Setting, strategy: &str, plan: Result<Plan, PlanError>) -> Row {
    let missing = match &plan {
        Err(PlanError::Deal(DealError::Infeasible { missing, .. })) => Some(missing.0),
        _ => None,
    };
    let plan = plan.ok();
    let of = |figure: &dyn Fn(&Plan) -> f64| plan.as_ref().map(figure);
    Row {
        model: setting.model,
        cluster: setting.cluster,
        tp: setting.ranks(),
        pp: setting.setup.stages,
        micro_batch: setting.micro_batch,
        micro_batches: MICRO_BATCHES,
        attention: setting.attention,
        weight_gradients_beside: setting.beside,
        strategy: strategy.to_owned(),
        feasible: plan.is_some(),
        step_ms: of(&|plan| digits(plan.step.time.seconds() * 1e3)),
        peak_bytes: plan.as_ref().map(|plan| plan.step.peak.0),
        hidden_fraction: plan
            .as_ref()
            .and_then(|plan| plan.step.hidden_fraction())
            .map(digits),
        exposed_ms: of(&|plan| digits(plan.step.exposed.seconds() * 1e3)),
        search_ms: of(&|plan| digits(plan.search.seconds() * 1e3)),
        gap: plan.as_ref().and_then(worst_gap).map(digits),
        extra_in_flight: plan
            .map(|plan| plan.setup.extra_in_flight)
            .unwrap_or_default(),
        missing_bytes: missing,
    }
}

/// Six digits are more than a model of costs is good for.
fn digits(figure: f64) -> f64 {
    if figure == 0.0 || !figure.is_finite() {
        return figure;
    }
    let unit = 10_f64.powi(5 - figure.abs().log10().floor() as i32);
    (figure * unit).round() / unit
}

fn worst_gap(plan: &Plan) -> Option<f64> {
    let problems = plan.problems().ok()?;
    let gaps = plan.stages.iter().zip(&problems);
    let gaps = gaps.map(|(stage, problem)| stage.gap(problem));
    gaps.collect::<Option<Vec<f64>>>()?
        .into_iter()
        .reduce(f64::max)
}
