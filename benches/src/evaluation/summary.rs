//! The figures that were hoped for, against those that came out.

use lynx_burn::plan::cluster::Window;

use super::run::{Compared, DEEP, SHALLOW, UNLIMITED};

/// Megatron-LM's full recompute.
pub const FULL: &[&str] = &["full-uniform"];
/// All that Megatron-LM offers.
pub const MEGATRON: &[&str] = &["full-uniform", "full-block", "selective"];
/// Everything that overlaps nothing.
pub const NOT_OVERLAPPED: &[&str] = &[
    "none",
    "full-uniform",
    "full-block",
    "full",
    "block",
    "selective",
    "chen",
    "greedy",
    "checkmate",
    "adapipe",
];

/// Ratios over settings, sorted.
#[derive(Clone, Debug)]
pub struct Ratios(Vec<f64>);

impl Ratios {
    /// Sorts.
    pub fn new(mut ratios: Vec<f64>) -> Self {
        ratios.sort_by(f64::total_cmp);
        Self(ratios)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest; `NaN` of none.
    pub fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    /// The middle one; `NaN` of none.
    pub fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The largest; `NaN` of none.
    pub fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}

/// The fastest of these strategies in a setting.
pub fn best(compared: &Compared, of: &[&str]) -> Option<f64> {
    let steps = of.iter().filter_map(|name| compared.step(name));
    steps.reduce(f64::min)
}

/// How many times as long as HEU's the step of the best of these takes.
pub fn against(all: &[&Compared], of: &[&str]) -> Ratios {
    let ratio = |compared: &&Compared| Some(best(compared, of)? / compared.step("heu")?);
    Ratios::new(all.iter().filter_map(ratio).collect())
}

/// How many times as long as the bound HEU's step takes.
pub fn to_bound(all: &[&Compared]) -> Ratios {
    let ratio = |compared: &&Compared| compared.step("heu").zip(compared.step(UNLIMITED));
    let ratios = all.iter().filter_map(ratio);
    Ratios::new(ratios.map(|(heu, bound)| heu / bound).collect())
}

/// Settings in which the windows hold all recompute.
pub fn all_hidden<'a>(all: &[&'a Compared]) -> Vec<&'a Compared> {
    let hidden = |compared: &&&Compared| {
        let exposed = compared.row("heu").and_then(|row| row.exposed_ms);
        exposed == Some(0.0)
    };
    all.iter().filter(hidden).copied().collect()
}

/// How many times as long HEU's step takes without one kind of window.
pub fn worth_of(all: &[&Compared], window: Window) -> Ratios {
    let ratio = |compared: &&Compared| {
        let without = compared.without.iter().find(|(kind, _)| *kind == window);
        Some(without?.1 / compared.step("heu")?)
    };
    Ratios::new(all.iter().filter_map(ratio).collect())
}

/// How many times as long it takes if no forward may run ahead.
pub fn worth_of_depth(all: &[&Compared]) -> Ratios {
    against(all, &[SHALLOW])
}

/// What depth gives without any window: the balanced knapsack against itself with forwards ahead.
pub fn depth_alone(all: &[&Compared]) -> Ratios {
    let ratio = |compared: &&Compared| Some(compared.step("adapipe")? / compared.step(DEEP)?);
    Ratios::new(all.iter().filter_map(ratio).collect())
}

/// HEU's step over OPT's, where OPT has closed its gap to this.
pub fn to_opt(all: &[&Compared], gap: f64) -> Ratios {
    let ratio = |compared: &&Compared| {
        let opt = compared.row("opt")?;
        let closed = opt.gap.is_some_and(|own| own <= gap);
        closed.then_some(compared.step("heu")? / opt.step_ms?)
    };
    Ratios::new(all.iter().filter_map(ratio).collect())
}

/// OPT's search time over HEU's.
pub fn search_ratio(all: &[&Compared]) -> Ratios {
    let search = |compared: &Compared, name| compared.row(name)?.search_ms;
    let ratio = |compared: &&Compared| Some(search(compared, "opt")? / search(compared, "heu")?);
    Ratios::new(all.iter().filter_map(ratio).collect())
}
