//! A per-stage knapsack after the idea of AdaPipe (ASPLOS 2024): every layer may be treated
//! differently, nothing is hidden, and the least recompute that fits is found exactly.
//!
//! Layers are added one by one from the input of the stage. What counts of those so far is their
//! time, what they hold, and the highest moment among them; of three such numbers that are no less
//! than three others nothing more need be known. A bound on what the other layers cost (the convex
//! hull of a layer's choices) and a plan of two groups cut the rest. The DP of the paper rounds
//! bytes to get by with a table; this one does not.

use std::time::Instant;

use super::best_of;
use super::skyline::{State, hull, least_time, undominated};
use crate::plan::planner::choice::{LayerGroup, SegmentChoice, StagePlan};
use crate::plan::planner::evaluate::evaluate;
use crate::plan::planner::heu::{self, Heu};
use crate::plan::planner::layer::{LayerBytes, Mode};
use crate::plan::planner::outcome::{Outcome, Planner};
use crate::plan::planner::problem::StageProblem;

/// The least recompute without overlap.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdaPipe;

/// A layer's choices, as bits: one for each recomputed segment.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    bits: u32,
    time: u64,
    held: u64,
    /// What it holds beside the layers before it at its highest moment.
    moment: u64,
}

/// The most segments of which all subsets are looked at.
const MOST_SEGMENTS: usize = 16;

impl Planner for AdaPipe {
    fn name(&self) -> &str {
        "adapipe-like"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let began = Instant::now();
        if let Err(error) = problem.validate() {
            let reason = error.to_string();
            return Outcome::Refused { reason };
        }
        let problem = problem.without_windows();
        // Two groups: a start, and the answer where nothing fits or layers are cut too finely.
        let until = began.checked_add(Heu::LIMIT);
        let (start, _) = heu::solve(&problem, true, until);
        if problem.segments.len() > MOST_SEGMENTS {
            return Outcome::of(&problem, start, false, began);
        }
        let most = evaluate(&problem, &start).map_or(u64::MAX, |cost| {
            cost.exposed.0.max(cost.cool_down_exposed.0)
        });
        let found = Knapsack::new(&problem).search(most);
        best_of(&problem, [start].into_iter().chain(found), began)
    }
}

struct Knapsack<'a> {
    problem: &'a StageProblem,
    patterns: Vec<Pattern>,
    /// Micro-batches in flight.
    in_flight: u64,
}

impl<'a> Knapsack<'a> {
    fn new(problem: &'a StageProblem) -> Self {
        let in_flight = match problem.steady {
            0 => problem.in_flight.min(problem.cool_down),
            _ => problem.in_flight,
        };
        let all = (0..1_u32 << problem.segments.len()).map(|bits| pattern(problem, bits));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|p| (p.time, p.held, p.moment));
        let mut patterns: Vec<Pattern> = Vec::new();
        for one in all {
            let less = |p: &Pattern| p.held <= one.held && p.moment <= one.moment;
            if !patterns.iter().any(less) {
                patterns.push(one);
            }
        }
        Self {
            problem,
            patterns,
            in_flight,
        }
    }

    /// The least time that fits, if it is no more than `most`.
    fn search(&self, most: u64) -> Option<StagePlan> {
        let hull = hull(self.patterns.iter().map(|p| (p.held, p.time)));
        let start = State {
            time: 0,
            held: 0,
            moment: 0,
            from: (0, 0),
        };
        let most_held = self.most_held()?;
        let mut steps = vec![vec![start]];
        for layer in 1..=self.problem.layers {
            let rest = (self.problem.layers - layer) as u64;
            let mut next = Vec::new();
            for (index, state) in steps[layer - 1].iter().enumerate() {
                for (number, pattern) in self.patterns.iter().enumerate() {
                    let longer = State {
                        time: state.time + pattern.time,
                        held: state.held + pattern.held,
                        moment: state.moment.max(state.held + pattern.moment),
                        from: (number, index),
                    };
                    let left = most_held.checked_sub(longer.held);
                    let least = left.and_then(|left| least_time(&hull, rest, left));
                    if least.is_some_and(|least| longer.time.saturating_add(least) <= most) {
                        next.push(longer);
                    }
                }
            }
            steps.push(undominated(next));
        }
        let mut ends = steps.last()?.iter();
        let mut at = ends.position(|state| self.fits(state))?;
        let mut patterns = Vec::new();
        for states in steps[1..].iter().rev() {
            let (number, before) = states[at].from;
            patterns.push(self.patterns[number].bits);
            at = before;
        }
        patterns.reverse();
        Some(self.write(&patterns))
    }

    /// What the layers of one micro-batch can hold at most, without what comes on top.
    fn most_held(&self) -> Option<u64> {
        let (before, after) = (self.problem.before, self.problem.after);
        let ends = before.tape.0 + after.tape.0;
        let last = self
            .problem
            .workspace()
            .0
            .max(after.tape.0 + after.workspace.0);
        let others = self.problem.fixed.0 + (self.in_flight - 1) * ends + before.tape.0 + last;
        Some(self.problem.budget.0.checked_sub(others)? / self.in_flight)
    }

    fn fits(&self, state: &State) -> bool {
        let (before, after) = (self.problem.before, self.problem.after);
        let ends = before.tape.0 + after.tape.0;
        let others = (self.in_flight - 1) * (state.held + ends) + before.tape.0;
        let layers = state.moment + self.problem.workspace().0;
        let head = state.held + after.tape.0 + after.workspace.0;
        let highest = layers.max(head).max(before.workspace.0);
        self.problem.fixed.0 + others + highest <= self.problem.budget.0
    }

    fn write(&self, patterns: &[u32]) -> StagePlan {
        let mut groups: Vec<LayerGroup> = Vec::new();
        for &bits in patterns {
            let choices = choices(self.problem.segments.len(), bits);
            match groups.last_mut() {
                Some(group) if group.choices == choices => group.layers += 1,
                _ => groups.push(LayerGroup::new(1, choices)),
            }
        }
        StagePlan { groups }
    }
}

fn choices(segments: usize, bits: u32) -> Vec<SegmentChoice> {
    let choice = |segment: usize| match bits >> segment & 1 {
        0 => SegmentChoice::Retain,
        _ => SegmentChoice::Exposed,
    };
    (0..segments).map(choice).collect()
}

fn pattern(problem: &StageProblem, bits: u32) -> Pattern {
    let choices = choices(problem.segments.len(), bits);
    let bytes = LayerBytes::by_segment(problem, &choices, Mode::Steady);
    let recomputed = problem.segments.iter().zip(&choices);
    let recomputed = recomputed.filter(|(_, choice)| choice.is_recomputed());
    let number = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    Pattern {
        bits,
        time: recomputed.map(|(segment, _)| segment.recompute.0).sum(),
        held: number(bytes.held()),
        moment: number((bytes.held_first + bytes.at_first).max(bytes.held() + bytes.at_second)),
    }
}
