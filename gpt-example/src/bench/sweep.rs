//! Communication by budget: what HEU gains over the best that overlaps nothing, in real steps and
//! in simulated ones.

use std::fmt;

use lynx_burn::plan::planner::{Plan, Strategy};
use lynx_burn::units::Bytes;
use serde::Serialize;

use super::BenchError;
use super::contender::{LIMIT, WAYS, Way};
use super::contest::duel;
use super::ground::{Ground, profile};
use super::row::Row;
use super::setting::{Setting, model};
use crate::config::{GptConfig, Modules};

/// How much of a step without recompute is communication.
pub const SHARES: [f64; 5] = [0.0, 0.15, 0.30, 0.45, 0.60];

/// What of the activations beyond those of full recompute fits into the budget.
const BUDGETS: [f64; 4] = [0.02, 0.15, 0.35, 0.65];

/// One point of the sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Share of communication.
    pub communication: f64,
    /// What fits of the activations beyond those of full recompute with collectives kept.
    pub budget: f64,
    /// The best that overlaps nothing, by its plan.
    pub best_not_overlapped: String,
    /// Its step over HEU's, measured: the median of the rounds.
    pub measured_speed_up: f64,
    /// The same simulated.
    pub simulated_speed_up: f64,
    /// HEU and that other.
    pub rows: [Row; 2],
}

/// Runs all cells, telling each.
pub(super) fn run(rounds: usize, mut told: impl FnMut(&Cell)) -> Result<Vec<Cell>, BenchError> {
    let base = Setting {
        name: "sweep".to_owned(),
        about: "two ranks".to_owned(),
        config: GptConfig {
            d_model: 192,
            heads: 6,
            ..model()
        },
        modules: Modules::Lynx,
        ranks: 2,
        stages: 1,
        micro_batches: 2,
        windows: 4,
        communication: 0.0,
        room: 1.0,
    };
    let mut cells = Vec::new();
    for communication in SHARES {
        // What a segment costs may change while the sweep runs on a shared machine.
        let profile = profile(&base)?;
        for budget in BUDGETS {
            let setting = Setting {
                communication,
                ..base.clone()
            };
            let mut ground = Ground::of(&setting, &profile)?;
            ground.setup.budget = between(&ground, budget)?;
            let Some(cell) = cell(&ground, budget, rounds)? else {
                continue;
            };
            told(&cell);
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// The budget that lies so far from full recompute to none.
fn between(ground: &Ground, share: f64) -> Result<Bytes, BenchError> {
    let mut setup = ground.setup.clone();
    setup.budget = Bytes(1 << 40);
    let peak = |name| -> Result<u64, BenchError> {
        let plan = Strategy::named(name, LIMIT)?.plan(&setup)?;
        let peaks = plan.stages.iter().map(|stage| stage.predicted.peak.0);
        Ok(peaks.max().unwrap_or(0))
    };
    let (full, none) = (peak("full")?, peak("none")?);
    Ok(Bytes(
        full + (none.saturating_sub(full) as f64 * share) as u64,
    ))
}

fn cell(ground: &Ground, budget: f64, rounds: usize) -> Result<Option<Cell>, BenchError> {
    let within = WAYS.into_iter().filter(Way::overlaps_nothing);
    let fits = |way: Way| -> Option<(Way, Plan)> {
        let plan = way.plan(ground).ok()?;
        (plan.step.peak <= ground.setup.budget).then_some((way, plan))
    };
    let best = within
        .filter_map(fits)
        .min_by_key(|(_, plan)| plan.step.time);
    let (Some((best, best_plan)), Some(heu)) = (best, Way::named("heu")) else {
        return Ok(None);
    };
    let heu_plan = heu.plan(ground)?;
    let Some(rows) = duel(ground, [heu, best], rounds)? else {
        return Ok(None);
    };
    let ratio = rows[0].relative_to_best_not_overlapped.unwrap_or(f64::NAN);
    Ok(Some(Cell {
        communication: ground.setting.communication,
        budget,
        best_not_overlapped: best.name.to_owned(),
        measured_speed_up: 1.0 / ratio,
        simulated_speed_up: best_plan.step.time.seconds() / heu_plan.step.time.seconds(),
        rows,
    }))
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let predicted = self.rows[0].predicted_over_measured.unwrap_or(f64::NAN);
        write!(
            f,
            "communication {:>2.0} %, budget {:>2.0} %: {:.3} x ({:.3} simulated) over {}, \
             predicted/measured {predicted:.3}",
            self.communication * 100.0,
            self.budget * 100.0,
            self.measured_speed_up,
            self.simulated_speed_up,
            self.best_not_overlapped,
        )
    }
}
