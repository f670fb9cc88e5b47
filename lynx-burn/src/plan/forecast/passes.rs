//! A stage's forward and backward, part after part.
//!
//! The order is that of `evaluate`: a backward passes the layers from the last to the first; of
//! each it runs the second half, window B1, the first half, window B2. Collectives of a half
//! follow it together.

use std::ops::Range;

use super::ForecastError;
use super::bytes::{Layer, Work};
use crate::plan::cluster::Window;
use crate::plan::planner::layer::{Mode, Place};
use crate::plan::planner::{Setup, StagePlan, StageProblem};
use crate::plan::profile::{LayerKind, SegmentProfile};
use crate::plan::sim::costs::{Ahead, Change, CoolDown, Part, StageCosts};
use crate::units::{Bytes, Nanos};

/// What a stage with these layers costs under its plan.
pub(super) fn stage(
    setup: &Setup,
    stage: usize,
    layers: Range<usize>,
    plan: &StagePlan,
) -> Result<StageCosts, ForecastError> {
    let problem = setup.problem(stage, layers.clone())?;
    let kind = setup.kind(stage, &layers)?;
    check(&problem, plan)?;
    let all = |mode| -> Vec<Layer> {
        let groups = plan.groups.iter();
        let at = groups.flat_map(|group| (0..group.layers).map(move |at| (group, at)));
        at.map(|(group, at)| Layer::new(&problem, group, at, mode))
            .collect()
    };
    let passes = Passes {
        setup,
        problem: &problem,
        kind,
        first: layers.start,
        ends: setup.ends(stage),
    };
    let steady = all(Mode::Steady);
    let mut costs = StageCosts {
        forward: passes.forward(&steady),
        backward: passes.backward(&steady),
        ahead: passes.ahead(&steady),
        cool_down: None,
        split: None,
        fixed: problem.fixed,
        reduction: setup.replicas.map_or(Nanos::ZERO, |replicas| {
            replicas.reduction_time(setup.gradients(stage, kind, layers.len()))
        }),
    };
    if problem.cool_down > 0 {
        let layers = all(Mode::CoolDown);
        let last = CoolDown {
            backwards: usize::try_from(problem.cool_down).unwrap_or(usize::MAX),
            backward: passes.backward(&layers),
            input: None,
            ahead: passes.ahead(&layers),
        };
        let differs = last.backward != costs.backward || last.ahead != costs.ahead;
        costs.cool_down = differs.then_some(last);
    }
    Ok(costs)
}

fn check(problem: &StageProblem, plan: &StagePlan) -> Result<(), ForecastError> {
    let (stage, layers, planned) = (problem.stage, problem.layers, plan.layers());
    if planned != layers {
        return Err(ForecastError::LayerCount {
            stage,
            layers,
            planned,
        });
    }
    let segments = problem.segments.len();
    let wrong = |group: &&_| -> bool {
        let group: &crate::plan::planner::LayerGroup = group;
        group.choices.len() != segments
    };
    match plan.groups.iter().find(wrong) {
        None => Ok(()),
        Some(group) => Err(ForecastError::SegmentCount {
            stage,
            segments,
            planned: group.choices.len(),
        }),
    }
}

struct Passes<'a> {
    setup: &'a Setup,
    problem: &'a StageProblem,
    kind: &'a LayerKind,
    /// The stage's first layer.
    first: usize,
    /// The segments before its layers and after them.
    ends: (&'a [SegmentProfile], &'a [SegmentProfile]),
}

impl Passes<'_> {
    fn forward(&self, layers: &[Layer]) -> Vec<Part> {
        let mut parts = Vec::new();
        self.forward_end(self.ends.0, &mut parts);
        let (first, second) = (
            0..self.problem.split,
            self.problem.split..self.kind.segments.len(),
        );
        for (index, layer) in layers.iter().enumerate() {
            for (half, window, place) in [
                (&first, Window::F1, Place::F1),
                (&second, Window::F2, Place::F2),
            ] {
                let mut length = Nanos::ZERO;
                for segment in half.clone() {
                    let profile = &self.kind.segments[segment];
                    parts.push(compute(
                        format!("{} {}", profile.name, self.first + index),
                        profile.forward,
                        around(profile.workspace, layer.held[segment], Bytes(0)),
                    ));
                    length = length.saturating_add(self.setup.time(&profile.after_forward));
                }
                let recompute = layer.at(place).time;
                collective(
                    &mut parts,
                    window,
                    length,
                    Nanos::ZERO,
                    Work {
                        time: recompute,
                        bytes: Bytes(0),
                    },
                );
            }
        }
        self.forward_end(self.ends.1, &mut parts);
        parts
    }

    fn forward_end(&self, segments: &[SegmentProfile], parts: &mut Vec<Part>) {
        for profile in segments {
            let bytes = around(profile.workspace, profile.tape, Bytes(0));
            parts.push(compute(profile.name.clone(), profile.forward, bytes));
            let length = self.setup.time(&profile.after_forward);
            collective(parts, Window::F2, length, Nanos::ZERO, Work::default());
        }
    }

    fn backward(&self, layers: &[Layer]) -> Vec<Part> {
        let mut parts = Vec::new();
        let (first, second) = (
            0..self.problem.split,
            self.problem.split..self.kind.segments.len(),
        );
        // What windows of "the layer after" do for the last layer, the head's collectives do.
        let entry = match layers.last() {
            Some(last) => last.at(Place::Early).plus(last.at(Place::Next)),
            None => Work::default(),
        };
        self.backward_end(self.ends.1, entry, &mut parts);
        for (index, layer) in layers.iter().enumerate().rev() {
            let below = index.checked_sub(1).map(|below| &layers[below]);
            let of_below = |place| below.map_or(Work::default(), |layer| layer.at(place));
            exposed(&mut parts, layer.replay);
            exposed(&mut parts, layer.at(Place::BeforeSecond));
            let early = layer.at(Place::Own).plus(of_below(Place::Early));
            self.half(
                &mut parts,
                (index, layer),
                second.clone(),
                (Window::B1, early),
            );
            exposed(&mut parts, layer.at(Place::BeforeFirst));
            self.half(
                &mut parts,
                (index, layer),
                first.clone(),
                (Window::B2, of_below(Place::Next)),
            );
        }
        self.backward_end(self.ends.0, Work::default(), &mut parts);
        parts
    }

    fn half(
        &self,
        parts: &mut Vec<Part>,
        (index, layer): (usize, &Layer),
        half: Range<usize>,
        (window, work): (Window, Work),
    ) {
        let (mut length, mut busy) = (Nanos::ZERO, Nanos::ZERO);
        for segment in half.rev() {
            let profile = &self.kind.segments[segment];
            let beside = self.setup.weight_gradients_beside(profile);
            parts.push(compute(
                format!("{} {}", profile.name, self.first + index),
                profile.backward().saturating_sub(beside),
                around(profile.workspace, Bytes(0), layer.freed[segment]),
            ));
            length = length.saturating_add(self.setup.time(&profile.after_backward));
            busy = busy.saturating_add(beside);
        }
        collective(parts, window, length, busy, work);
    }

    fn backward_end(&self, segments: &[SegmentProfile], work: Work, parts: &mut Vec<Part>) {
        let (mut length, mut busy) = (Nanos::ZERO, Nanos::ZERO);
        for profile in segments.iter().rev() {
            let beside = self.setup.weight_gradients_beside(profile);
            let time = profile.backward().saturating_sub(beside);
            let bytes = around(profile.workspace, Bytes(0), profile.tape);
            parts.push(compute(profile.name.clone(), time, bytes));
            length = length.saturating_add(self.setup.time(&profile.after_backward));
            busy = busy.saturating_add(beside);
        }
        collective(parts, Window::B2, length, busy, work);
    }

    /// What may be done before a backward. Waits of the kinds that may be used take any of it.
    fn ahead(&self, layers: &[Layer]) -> Ahead {
        let places = [
            Place::F1,
            Place::F2,
            Place::Send,
            Place::Recv,
            Place::Bubble,
        ];
        let all = layers
            .iter()
            .flat_map(|layer| places.map(|place| layer.at(place)));
        let all = all.fold(Work::default(), Work::plus);
        let may = |window| !all.is_none() && self.setup.windows.contains(&window);
        Ahead {
            work: all.time,
            send: may(Window::Send),
            recv: may(Window::Recv),
            bubble: may(Window::Bubble),
            bytes: all.bytes,
        }
    }
}

fn compute(label: String, time: Nanos, bytes: Change) -> Part {
    Part::Compute { label, time, bytes }
}

/// Beside `workspace` for a moment.
fn around(workspace: Bytes, takes: Bytes, frees: Bytes) -> Change {
    Change {
        takes: Bytes(takes.0.saturating_add(workspace.0)),
        frees: Bytes(frees.0.saturating_add(workspace.0)),
    }
}

/// A collective with recompute beside it; without one, all of the recompute is exposed.
fn collective(parts: &mut Vec<Part>, window: Window, time: Nanos, busy: Nanos, work: Work) {
    if time == Nanos::ZERO {
        exposed(parts, work);
        return;
    }
    parts.push(Part::Collective {
        window,
        time,
        recompute: work.time,
        busy,
        bytes: Change::takes(work.bytes),
    });
}

fn exposed(parts: &mut Vec<Part>, work: Work) {
    if !work.is_none() {
        parts.push(Part::Recompute {
            time: work.time,
            bytes: Change::takes(work.bytes),
        });
    }
}
