//! How many layers have which label, whatever their order: a small program for a long stage.
//!
//! Layers are alike, so a program that names them has as many equal solutions as there are
//! orders, and a solver that has to prove something looks at them all. This one counts. Without
//! order rows it asks only for what every order has to satisfy, so that its optimum is a bound.
//!
//! With them it asks for what the best order has to satisfy as far as neighbours do not matter: what
//! earlier layers (in the order of the forward) hold, plus a layer's own *bump*, has to fit, and no
//! order is better than the one from the largest bump to the smallest (exchange two neighbours;
//! the idea is Lawler's, for one machine and the greatest lateness). Neighbours, which share B1 and
//! its bytes, can only ask for more: still a bound, and exact where there are no windows.

use super::super::choice::{LayerGroup, StagePlan};
use super::solver::{Program, Var};
use super::stage::{Label, Moments, Stage, Uses};

/// A program and what its first variables mean.
pub(super) struct Counts<'a> {
    pub(super) program: Program,
    any: Uses<'a>,
    last: Uses<'a>,
}

impl<'a> Counts<'a> {
    pub(super) fn new(stage: &'a Stage<'_>, ordered: bool) -> Self {
        let mut program = Program::default();
        let others = stage.problem.layers - 1;
        let mut labels: Vec<&Label> = stage.any.iter().collect();
        labels.sort_by_key(|label| std::cmp::Reverse(bump(stage, label)));
        let any: Uses<'_> = labels.iter().map(|&l| (program.count(others), l)).collect();
        let last: Uses<'_> = stage.last.iter().map(|l| (program.binary(), l)).collect();
        exactly(&mut program, &any, others as f64);
        exactly(&mut program, &last, 1.0);
        stage.add_times(&mut program, &any, &last);
        let workspace = stage.problem.workspace().0;
        for mode in &stage.modes {
            add_ends(&mut program, stage, mode, &any, &last);
            let before = || {
                let mut sum = mode.held(any.iter().chain(&last));
                sum.extend(mode.bytes(any.iter(), mode.all));
                sum
            };
            for moment in [mode.first, mode.second] {
                let mut sum = before();
                sum.extend(mode.bytes(last.iter(), moment));
                program.at_most_bytes(merged(sum), mode.room(workspace));
            }
        }
        if ordered {
            add_order(&mut program, stage, &any, &last);
        }
        Self { program, any, last }
    }

    /// The plan with these counts, from the largest bump to the smallest.
    pub(super) fn plan(&self, segments: usize, values: &[f64]) -> StagePlan {
        let used = |&(var, label): &(Var, &Label)| {
            let count = value(values, var).round() as usize;
            (count > 0).then(|| LayerGroup::new(count, label.choices(segments)))
        };
        let groups = self.any.iter().chain(&self.last).filter_map(used);
        StagePlan {
            groups: groups.collect(),
        }
    }
}

/// What a label's moments hold beyond what stays of the layer, at most.
fn bump(stage: &Stage<'_>, label: &Label) -> u64 {
    let of = |mode: &Moments| {
        let most = label.get(mode.first).max(label.get(mode.second));
        most.saturating_sub(label.get(mode.all))
    };
    stage.modes.iter().map(of).max().unwrap_or(0)
}

fn add_order(program: &mut Program, stage: &Stage<'_>, any: &Uses<'_>, last: &Uses<'_>) {
    let others = (stage.problem.layers - 1) as f64;
    let workspace = stage.problem.workspace().0;
    for (index, &(var, label)) in any.iter().enumerate() {
        let used = program.binary();
        program.at_most(vec![(var, 1.0), (used, -others)], 0.0);
        for mode in &stage.modes {
            let mut sum = mode.held(any.iter().chain(last));
            sum.extend(mode.bytes(any[..=index].iter(), mode.all));
            sum.push((used, mode.scaled(bump(stage, label))));
            program.at_most_bytes(merged(sum), mode.room(workspace));
        }
    }
}

/// The moments of the ends of the stage, which depend on no order.
pub(super) fn add_ends(
    program: &mut Program,
    stage: &Stage<'_>,
    mode: &Moments,
    any: &Uses<'_>,
    last: &Uses<'_>,
) {
    let (before, after) = (stage.problem.before, stage.problem.after);
    let all = || any.iter().chain(last);
    program.at_most_bytes(mode.held(all()), mode.room(before.workspace.0));
    let mut sum = mode.held(all());
    sum.extend(mode.bytes(all(), mode.all));
    program.at_most_bytes(
        merged(sum),
        mode.room(after.tape.0.saturating_add(after.workspace.0)),
    );
}

/// The labels are used so many times in total.
pub(super) fn exactly(program: &mut Program, uses: &Uses<'_>, times: f64) {
    let sum = |sign: f64| uses.iter().map(|&(var, _)| (var, sign)).collect();
    program.at_most(sum(1.0), times);
    program.at_most(sum(-1.0), -times);
}

/// One term for each variable.
pub(super) fn merged(mut sum: Vec<(Var, f64)>) -> Vec<(Var, f64)> {
    sum.sort_by_key(|&(var, _)| var);
    sum.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    sum
}

/// The value of a variable.
pub(super) fn value(values: &[f64], var: Var) -> f64 {
    values.get(var.index()).copied().unwrap_or(0.0)
}
