//! Plans and simulates one setting under every strategy.

use std::time::Duration;

use lynx_burn::plan::cluster::Window;
use lynx_burn::plan::planner::{DealError, Plan, PlanError, Setup, Strategy, unlimited};
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
    pub extra_in_flight: Vec<usize>,
    /// What is missing, where it is infeasible.
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
    /// HEU's step without forwards that run ahead, if it uses them.
    pub shallow_ms: Option<f64>,
}

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
    let mut rows = Vec::new();
    for strategy in Strategy::all(LIMIT) {
        if strategy.name() == "opt" && !with_opt {
            continue;
        }
        let plan = strategy.plan(&setting.setup);
        rows.push(row(setting, strategy.name(), plan));
    }
    rows.push(row(setting, "unlimited", unlimited(&setting.setup)));
    let heu = |setup: &Setup| {
        let plan = Strategy::named("heu", LIMIT).ok()?.plan(setup).ok()?;
        Some(plan.step.time.seconds() * 1e3)
    };
    let mut without = Vec::new();
    for window in Window::ALL {
        let mut setup = setting.setup.clone();
        setup.windows.retain(|kept| *kept != window);
        without.extend(heu(&setup).map(|step| (window, step)));
    }
    let shallow = Strategy::named("heu", LIMIT).ok();
    let shallow = shallow.map(Strategy::at_the_schedules_depth);
    let shallow = shallow.and_then(|strategy| strategy.plan(&setting.setup).ok());
    Compared {
        setting: setting.clone(),
        rows,
        without,
        shallow_ms: shallow.map(|plan| plan.step.time.seconds() * 1e3),
    }
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
        step_ms: of(&|plan| plan.step.time.seconds() * 1e3),
        peak_bytes: plan.as_ref().map(|plan| plan.step.peak.0),
        hidden_fraction: plan.as_ref().and_then(|plan| plan.step.hidden_fraction()),
        exposed_ms: of(&|plan| plan.step.exposed.seconds() * 1e3),
        search_ms: of(&|plan| plan.search.seconds() * 1e3),
        gap: plan.as_ref().and_then(worst_gap),
        extra_in_flight: plan.map(|plan| plan.setup.extra_in_flight).unwrap_or_default(),
        missing_bytes: missing,
    }
}

fn worst_gap(plan: &Plan) -> Option<f64> {
    let problems = plan.problems().ok()?;
    let gaps = plan.stages.iter().zip(&problems);
    let gaps = gaps.map(|(stage, problem)| stage.gap(problem));
    gaps.collect::<Option<Vec<f64>>>()?
        .into_iter()
        .reduce(f64::max)
}
