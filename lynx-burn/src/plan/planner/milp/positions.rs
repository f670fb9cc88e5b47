//! Which layer has which label: OPT's program.
//!
//! One row for each moment of each backward says that what is alive there fits, as a sum over the
//! labels of the layers that are not passed yet. Prefix sums keep the rows short.

use super::super::choice::{LayerGroup, StagePlan};
use super::counts::{add_ends, exactly, merged, value};
use super::solver::{Program, Var};
use super::stage::{Label, Moments, Stage, Sum, Uses, terms};
use crate::plan::cluster::Window;

/// A program and what its variables mean.
pub(super) struct Positions<'a> {
    pub(super) program: Program,
    layers: Vec<Uses<'a>>,
}

impl<'a> Positions<'a> {
    /// With `thrift`, bytes may be missing and as few as possible are; time does not matter.
    pub(super) fn new(stage: &'a Stage<'_>, thrift: bool) -> Self {
        let mut program = Program::default();
        let end = stage.problem.layers - 1;
        let layers: Vec<Uses<'_>> = (0..=end)
            .map(|layer| {
                let labels = if layer == end {
                    &stage.last
                } else {
                    &stage.any
                };
                labels.iter().map(|l| (program.binary(), l)).collect()
            })
            .collect();
        for layer in &layers {
            exactly(&mut program, layer, 1.0);
        }
        let others: Uses<'_> = layers[..end].iter().flatten().copied().collect();
        stage.add_times(&mut program, &others, &layers[end]);
        add_b1(&mut program, stage, &layers);
        for mode in &stage.modes {
            add_ends(&mut program, stage, mode, &others, &layers[end]);
            add_moments(&mut program, stage, mode, &layers);
        }
        if thrift {
            program.relax_bytes();
        }
        Self { program, layers }
    }

    /// The plan with these values.
    pub(super) fn plan(&self, segments: usize, values: &[f64]) -> StagePlan {
        let mut groups: Vec<LayerGroup> = Vec::new();
        for layer in &self.layers {
            let most = |a: &&(Var, &Label), b: &&(Var, &Label)| {
                value(values, a.0).total_cmp(&value(values, b.0))
            };
            let Some((_, label)) = layer.iter().max_by(most) else {
                continue;
            };
            let choices = label.choices(segments);
            match groups.last_mut() {
                Some(group) if group.choices == choices => group.layers += 1,
                _ => groups.push(LayerGroup::new(1, choices)),
            }
        }
        StagePlan { groups }
    }

    /// The values that stand for a plan, if each of its layers has one of the labels.
    pub(super) fn values(&self, plan: &StagePlan) -> Option<Vec<(Var, f64)>> {
        let mut values = Vec::new();
        for (uses, group) in self.layers.iter().zip(plan.by_layer()) {
            let segments = group.choices.len();
            let own = |(_, label): &(Var, &Label)| label.choices(segments) == group.choices;
            let chosen = uses.iter().position(own)?;
            let one = |(index, &(var, _)): (usize, &(Var, &Label))| {
                (var, if index == chosen { 1.0 } else { 0.0 })
            };
            values.extend(uses.iter().enumerate().map(one));
        }
        Some(values)
    }
}

/// B1 of a layer hosts its own first half and the second half of the layer before.
fn add_b1(program: &mut Program, stage: &Stage<'_>, layers: &[Uses<'_>]) {
    let room = stage
        .problem
        .windows
        .capacity(Window::B1)
        .unwrap_or_default();
    let unit = (room.0 as f64 / 1000.0).max(1.0);
    for pair in layers.windows(2) {
        let mut sum = terms(pair[0].iter(), Sum::Early, unit);
        if !sum.is_empty() {
            sum.extend(terms(pair[1].iter(), Sum::Own, unit));
            program.at_most(sum, room.0 as f64 / unit);
        }
    }
}

fn add_moments(program: &mut Program, stage: &Stage<'_>, mode: &Moments, layers: &[Uses<'_>]) {
    let workspace = stage.problem.workspace().0;
    let held = mode.held(layers.iter().flatten());
    // What other micro-batches hold; what the current one holds of the layers before.
    let total = program.continuous(f64::INFINITY);
    let mut sum = held;
    sum.push((total, -1.0));
    program.at_most(sum, 0.0);
    let mut passed: Option<Var> = None;
    for (index, layer) in layers.iter().enumerate() {
        let base: Vec<(Var, f64)> = passed.iter().chain([&total]).map(|&v| (v, 1.0)).collect();
        for moment in [mode.first, mode.second] {
            let mut sum = base.clone();
            sum.extend(mode.bytes(layer.iter(), moment));
            if index > 0 && moment as usize == mode.first as usize {
                sum.extend(mode.bytes(layers[index - 1].iter(), Sum::EarlyBytes));
            }
            program.at_most_bytes(sum, mode.room(workspace));
        }
        let next = program.continuous(f64::INFINITY);
        let mut sum: Vec<(Var, f64)> = passed.iter().map(|&var| (var, 1.0)).collect();
        sum.extend(mode.bytes(layer.iter(), mode.all));
        sum.push((next, -1.0));
        program.at_most(merged(sum), 0.0);
        passed = Some(next);
    }
}
