//! What a stage's plan costs: the definition that every planner here is held to.
//!
//! Written layer by layer and as plainly as possible; planners use closed forms and are tested
//! against it. A backward passes the layers from the last to the first. For each it runs the
//! second half (moment *M*), waits (window B1), runs the first half (moment *A*), and waits
//! (window B2). The rules:
//!
//! - *Order.* A recomputed segment finds its input where the segment before it was recomputed in
//!   the same place; if that was earlier, the input is held in between. In every other case, and
//!   always across a collective, it is held from the forward on. Nothing repeats a collective,
//!   but for [`Replay::Layers`].
//! - *Windows.* Each hosts at most its capacity; F and B windows are those of one layer, SEND,
//!   RECV and BUBBLE those of one micro-batch. What lies in B windows of "the layer after" has,
//!   for the last layer of the stage, only the head's collectives; the rest is exposed there. In
//!   the cool-down, F windows and BUBBLE share the gap before a backward, and the rest is exposed.
//! - *Memory.* At both moments of every layer: what is there all the time, what all micro-batches
//!   in flight hold, less the layers that the current one has passed, what was made anew before
//!   this backward (F, SEND, RECV: for all layers not passed), what B windows and exposed
//!   recompute have made anew by then, and the largest workspace.

use super::choice::{LayerGroup, Replay, SegmentChoice, StagePlan};
use super::layer::{LayerBytes, Mode};
use super::plan_error::Violation;
use super::problem::StageProblem;
use crate::plan::cluster::Window;
use crate::units::{Bytes, Nanos};

use serde::{Deserialize, Serialize};

/// What a stage's plan costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Recompute on the critical path of one backward of the steady part.
    pub exposed: Nanos,
    /// Recompute in windows, likewise.
    pub hidden: Nanos,
    /// Recompute on the critical path of one backward of the cool-down.
    pub cool_down_exposed: Nanos,
    /// Recompute in windows, likewise.
    pub cool_down_hidden: Nanos,
    /// What the stage holds when it holds most.
    pub peak: Bytes,
    /// The segments of all layers that are recomputed in a window.
    pub hosted: u64,
}

impl Cost {
    /// Recompute on the critical path of a whole step of the stage.
    pub fn exposed_step(&self, problem: &StageProblem) -> u128 {
        step(self.exposed, self.cool_down_exposed, problem)
    }

    /// Recompute in windows during a whole step of the stage.
    pub fn hidden_step(&self, problem: &StageProblem) -> u128 {
        step(self.hidden, self.cool_down_hidden, problem)
    }

    /// Forward, backward and exposed recompute of one micro-batch, in the steady part if there is one.
    pub fn micro_batch(&self, problem: &StageProblem) -> Nanos {
        let plain = problem.forward.saturating_add(problem.backward);
        plain.saturating_add(match problem.steady {
            0 => self.cool_down_exposed,
            _ => self.exposed,
        })
    }

    /// The same when the pipeline fills and drains, if it ever does.
    pub fn ramp(&self, problem: &StageProblem) -> Nanos {
        let plain = problem.forward.saturating_add(problem.backward);
        plain.saturating_add(match problem.cool_down {
            0 => self.exposed,
            _ => self.cool_down_exposed,
        })
    }

    /// What planners minimise: exposed time of a step, then bytes, then hosted segments.
    pub fn rank(&self, problem: &StageProblem) -> (u128, Bytes, u64) {
        (self.exposed_step(problem), self.peak, self.hosted)
    }
}

/// The cost of a plan, or the first rule that it breaks.
pub fn evaluate(problem: &StageProblem, plan: &StagePlan) -> Result<Cost, Violation> {
    let cost = evaluate_without_budget(problem, plan)?;
    if cost.peak > problem.budget {
        return Err(Violation::OverBudget {
            peak: cost.peak,
            budget: problem.budget,
        });
    }
    Ok(cost)
}

/// The cost of a plan, or the first rule that it breaks other than the budget.
pub fn evaluate_without_budget(
    problem: &StageProblem,
    plan: &StagePlan,
) -> Result<Cost, Violation> {
    problem.validate()?;
    check_shape(problem, plan)?;
    check_windows(problem, plan)?;
    let (exposed, hidden) = times(problem, plan, Mode::Steady);
    let (cool_down_exposed, cool_down_hidden) = times(problem, plan, Mode::CoolDown);
    let hosted = |group: &LayerGroup| {
        let choices = group.choices.iter();
        choices.filter(|choice| choice.window().is_some()).count() as u64 * group.layers as u64
    };
    Ok(Cost {
        exposed,
        hidden,
        cool_down_exposed,
        cool_down_hidden,
        peak: peak(problem, plan),
        hosted: plan.groups.iter().map(hosted).sum(),
    })
}

fn step(steady: Nanos, cool_down: Nanos, problem: &StageProblem) -> u128 {
    let all = |one: Nanos, count: u64| u128::from(one.0) * u128::from(count);
    all(steady, problem.steady) + all(cool_down, problem.cool_down)
}

fn check_shape(problem: &StageProblem, plan: &StagePlan) -> Result<(), Violation> {
    let (given, layers) = (plan.layers(), problem.layers);
    if given != layers {
        return Err(Violation::LayerCount { given, layers });
    }
    for (group, members) in plan.groups.iter().enumerate() {
        let (given, segments) = (members.choices.len(), problem.segments.len());
        if given != segments {
            return Err(Violation::SegmentCount {
                group,
                given,
                segments,
            });
        }
        if let Replay::Layers(together) = members.replay {
            let exposed = members.choices.iter().all(|&c| c == SegmentChoice::Exposed);
            if together == 0 || !exposed {
                return Err(Violation::Replay { group, together });
            }
        }
        let mut windows = members.choices.iter().filter_map(|choice| choice.window());
        if let Some(window) = windows.find(|&window| !problem.usable(window)) {
            return Err(Violation::NoWindow { group, window });
        }
    }
    Ok(())
}

/// What the segments of one half of a layer that have this choice take to recompute.
fn work(problem: &StageProblem, group: &LayerGroup, window: Window, second: bool) -> u128 {
    let segments = problem.segments.iter().zip(&group.choices).enumerate();
    segments
        .filter(|(index, _)| (*index >= problem.split) == second)
        .filter(|(_, (_, choice))| **choice == SegmentChoice::InWindow(window))
        .map(|(_, (segment, _))| u128::from(segment.recompute.0))
        .sum()
}

fn check_windows(problem: &StageProblem, plan: &StagePlan) -> Result<(), Violation> {
    let fits = |window: Window, work: u128| {
        let capacity = problem.windows.capacity(window).unwrap_or_default();
        if work > u128::from(capacity.0) {
            let work = nanos(work);
            return Err(Violation::Overfull {
                window,
                work,
                capacity,
            });
        }
        Ok(())
    };
    let both =
        |group, window| work(problem, group, window, false) + work(problem, group, window, true);
    let (mut send, mut recv) = (0, 0);
    let mut before: Option<&LayerGroup> = None;
    for layer in plan.by_layer() {
        fits(Window::F1, both(layer, Window::F1))?;
        fits(Window::F2, both(layer, Window::F2))?;
        let second_before = before.map_or(0, |b| work(problem, b, Window::B1, true));
        fits(
            Window::B1,
            work(problem, layer, Window::B1, false) + second_before,
        )?;
        fits(Window::B2, before.map_or(0, |b| both(b, Window::B2)))?;
        send += both(layer, Window::Send);
        recv += both(layer, Window::Recv);
        before = Some(layer);
    }
    fits(Window::Send, send)?;
    fits(Window::Recv, recv)
}

/// Exposed and hidden recompute of one backward.
fn times(problem: &StageProblem, plan: &StagePlan, mode: Mode) -> (Nanos, Nanos) {
    let (mut exposed, mut hidden, mut ahead, mut entry) = (0, 0, 0, 0);
    let layers: Vec<_> = plan.by_layer().collect();
    for (index, group) in layers.iter().enumerate() {
        if let Replay::Layers(_) = group.replay {
            exposed += problem.replayed_layer();
            continue;
        }
        let last = index + 1 == layers.len();
        for (segment, choice) in group.choices.iter().enumerate() {
            let time = u128::from(problem.segments[segment].recompute.0);
            let second = segment >= problem.split;
            let sum = match (choice, mode) {
                (SegmentChoice::Retain, _) => continue,
                (SegmentChoice::Exposed, _) => &mut exposed,
                (SegmentChoice::InWindow(Window::Bubble), Mode::Steady) => &mut exposed,
                (SegmentChoice::InWindow(Window::F1 | Window::F2 | Window::Bubble), _)
                    if mode == Mode::CoolDown =>
                {
                    &mut ahead
                }
                (SegmentChoice::InWindow(Window::B2), _) if last => &mut entry,
                (SegmentChoice::InWindow(Window::B1), _) if last && second => &mut entry,
                (SegmentChoice::InWindow(_), _) => &mut hidden,
            };
            *sum += time;
        }
    }
    let bubble = problem.windows.bubble.unwrap_or_default();
    for (work, room) in [(ahead, bubble), (entry, problem.windows.entry)] {
        let hosted = work.min(u128::from(room.0));
        hidden += hosted;
        exposed += work - hosted;
    }
    (nanos(exposed), nanos(hidden))
}

fn peak(problem: &StageProblem, plan: &StagePlan) -> Bytes {
    let mut peak = 0;
    if problem.steady > 0 {
        peak = peak_of(problem, plan, Mode::Steady, problem.in_flight);
    }
    if problem.cool_down > 0 {
        let in_flight = problem.in_flight.min(problem.cool_down);
        peak = peak.max(peak_of(problem, plan, Mode::CoolDown, in_flight));
    }
    Bytes(u64::try_from(peak).unwrap_or(u64::MAX))
}

fn peak_of(problem: &StageProblem, plan: &StagePlan, mode: Mode, in_flight: u64) -> u128 {
    let mut layers: Vec<LayerBytes> = Vec::with_capacity(problem.layers);
    for group in &plan.groups {
        layers.extend((0..group.layers).map(|at| LayerBytes::new(problem, group, at, mode)));
    }
    let (before, after) = (problem.before, problem.after);
    let held: u128 = layers.iter().map(|layer| layer.held()).sum();
    let ends = u128::from(before.tape.0) + u128::from(after.tape.0);
    // What the other micro-batches hold, and what is there all the time.
    let others = u128::from(problem.fixed.0) + u128::from(in_flight - 1) * (held + ends);
    // The current one: at the backward of the embedding all layers are passed.
    let mut passed = others + u128::from(before.tape.0);
    let mut peak = passed + u128::from(before.workspace.0);
    let workspace = u128::from(problem.workspace().0);
    let mut below: Option<&LayerBytes> = None;
    for layer in &layers {
        let early = below.map_or(0, |below| below.early);
        let first = passed + layer.held_first + layer.long_first;
        peak = peak.max(first + layer.at_first + early + workspace);
        let second = first + layer.held_second + layer.long_second;
        peak = peak.max(second + layer.at_second + workspace);
        passed = second;
        below = Some(layer);
    }
    peak.max(passed + u128::from(after.tape.0) + u128::from(after.workspace.0))
}

fn nanos(time: u128) -> Nanos {
    Nanos(u64::try_from(time).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
