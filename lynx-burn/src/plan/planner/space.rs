//! The choices for a layer as numbers: what each segment adds to each measure.
//!
//! Made once for a stage and searched several times by `front`.

use super::measure::{Measure, measures};
use super::problem::StageProblem;
use super::stage_sum::StageSum;
use super::sums::Sum;
use super::sums::{ALL, Label, SUMS, added};

/// Everything that a search for a layer's choices needs to know.
pub(super) struct Space {
    /// Choices by their place in [`ALL`].
    pub(super) usable: Vec<usize>,
    /// Those that choices can differ in; the first two always.
    pub(super) measures: Vec<Measure>,
    /// By segment.
    pub(super) steps: Vec<Step>,
}

/// What choices cost at some prices.
pub(super) struct Guide {
    /// By segment, of one choice after another.
    pub(super) costs: Vec<[f64; ALL.len() * ALL.len()]>,
    /// Of all segments from one on, for every choice of the one before it.
    pub(super) rest: Vec<[f64; ALL.len()]>,
    /// The cheapest choices, and what they cost.
    pub(super) choices: u128,
    pub(super) least: f64,
}

/// One segment.
pub(super) struct Step {
    sums: Vec<[u64; SUMS]>,
    /// The measures of each pair, one after the other.
    keys: Vec<u64>,
    /// How many measures there are.
    stride: usize,
    /// Whether, after one choice, the next segment never adds more than after another.
    pub(super) covers: Vec<bool>,
    /// The least bytes of all segments from this one on, for every choice of the one before.
    pub(super) rest: [u64; ALL.len()],
}

/// A pair of choices, for tables.
pub(super) fn pair(before: usize, own: usize) -> usize {
    before * ALL.len() + own
}

impl Step {
    /// What it adds to the measures after one choice with another.
    pub(super) fn key(&self, before: usize, own: usize) -> &[u64] {
        let start = pair(before, own) * self.stride;
        &self.keys[start..start + self.stride]
    }
}

impl Space {
    /// `alone` tells that the layer is the only one of the last group: then its B windows of "the
    /// layer after" are the head's.
    pub(super) fn new(stage: &StageSum<'_>, alone: bool, windows: bool) -> Self {
        let problem = stage.problem();
        let of = |code: &usize| ALL[*code].window();
        let can = |code: &usize| of(code).is_none_or(|w| windows && problem.usable(w));
        let usable: Vec<usize> = (0..ALL.len()).filter(can).collect();
        let mut steps: Vec<Step> = (0..problem.segments.len())
            .map(|segment| Step {
                sums: sums(problem, &usable, segment, alone),
                keys: Vec::new(),
                stride: 0,
                covers: Vec::new(),
                rest: [0; ALL.len()],
            })
            .collect();
        let mut measures = measures(stage);
        let mut place = 0;
        measures.retain(|measure| {
            place += 1;
            place <= 2 || is_live(measure, &steps)
        });
        for step in &mut steps {
            let key = |sums| measures.iter().map(move |measure| measure.of(sums));
            step.keys = step.sums.iter().flat_map(key).collect();
            step.stride = measures.len();
        }
        let mut space = Self {
            usable,
            measures,
            steps,
        };
        space.look_ahead(problem);
        space
    }

    /// The least bytes that a layer can hold before its backward.
    pub(super) fn least_bytes(&self) -> u64 {
        self.steps.first().map_or(0, |step| step.rest[0])
    }

    /// The choices with their sums.
    pub(super) fn label(&self, choices: u128) -> Label {
        let mut sums = [0; SUMS];
        let mut before = 0;
        for (segment, step) in self.steps.iter().enumerate() {
            let own = (choices >> (4 * segment)) as usize & 15;
            for (sum, more) in sums.iter_mut().zip(&step.sums[pair(before, own)]) {
                *sum += more;
            }
            before = own;
        }
        Label { choices, sums }
    }

    /// What choices cost at a price for bytes (the second measure) and prices of the other sums,
    /// which do not depend on the choice before.
    pub(super) fn guide(&self, bytes: f64, prices: &[f64; SUMS]) -> Guide {
        let count = self.steps.len();
        let mut costs = vec![[0.0; ALL.len() * ALL.len()]; count];
        let mut rest = vec![[0.0; ALL.len()]; count + 1];
        let mut cheapest = vec![[0; ALL.len()]; count];
        let priced = || (0..SUMS).filter(|&sum| prices[sum] != 0.0);
        for (segment, step) in self.steps.iter().enumerate().rev() {
            rest[segment] = [f64::INFINITY; ALL.len()];
            for &own in &self.usable {
                let sums = &step.sums[pair(own, own)];
                let own_cost: f64 = priced().map(|sum| sums[sum] as f64 * prices[sum]).sum();
                let after = rest[segment + 1][own];
                for &before in &self.usable {
                    let cost = own_cost + bytes * step.key(before, own)[1] as f64;
                    costs[segment][pair(before, own)] = cost;
                    if cost + after < rest[segment][before] {
                        rest[segment][before] = cost + after;
                        cheapest[segment][before] = own;
                    }
                }
            }
        }
        let mut choices = 0;
        let mut before = 0;
        for (segment, cheapest) in cheapest.iter().enumerate() {
            before = cheapest[before];
            choices |= (before as u128) << (4 * segment);
        }
        Guide {
            least: rest[0][0],
            costs,
            rest,
            choices,
        }
    }

    /// From the last segment to the first: what can follow.
    fn look_ahead(&mut self, problem: &StageProblem) {
        let mut rest = [0; ALL.len()];
        let mut next: Option<&Step> = None;
        for (segment, step) in self.steps.iter_mut().enumerate().rev() {
            // Nothing is made anew across a collective: the choice before it does not matter.
            let apart = problem.segments[segment].collective.is_some();
            step.covers = covers(&self.usable, next.filter(|_| !apart));
            let mut own_rest = [0; ALL.len()];
            for &before in &self.usable {
                let with = self.usable.iter();
                let with = with.map(|&own| step.key(before, own)[1] + rest[own]);
                own_rest[before] = with.min().unwrap_or(0);
            }
            step.rest = own_rest;
            rest = own_rest;
            next = Some(step);
        }
    }
}

/// By both choices; those of which one is not usable add nothing.
fn sums(problem: &StageProblem, usable: &[usize], segment: usize, alone: bool) -> Vec<[u64; SUMS]> {
    // Nothing is left of these windows for the last layer of a stage without a head.
    let no_entry = alone && problem.windows.entry.0 == 0;
    let mut all = vec![[0; SUMS]; ALL.len() * ALL.len()];
    for &before in usable {
        for &own in usable {
            let mut sums = added(problem, segment, ALL[before], ALL[own]);
            if alone {
                for sum in [Sum::Early, Sum::B2, Sum::EarlyBytes] {
                    sums[sum as usize] = 0;
                }
            }
            if no_entry {
                let late = std::mem::take(&mut sums[Sum::Entry as usize]);
                sums[Sum::Exposed as usize] += late * problem.micro_batches();
            }
            all[pair(before, own)] = sums;
        }
    }
    all
}

/// Whether choices can differ in it.
fn is_live(measure: &Measure, steps: &[Step]) -> bool {
    let most = |step: &Step| {
        let each = step.sums.iter().map(|sums| measure.of(sums));
        each.max().unwrap_or(0)
    };
    let total: u64 = steps.iter().map(most).sum();
    total > measure.slack[steps.len()]
}

fn covers(usable: &[usize], next: Option<&Step>) -> Vec<bool> {
    let mut all = vec![true; ALL.len() * ALL.len()];
    let Some(next) = next else { return all };
    for &a in usable {
        for &b in usable {
            all[pair(a, b)] = usable.iter().all(|&own| {
                let mut both = next.key(a, own).iter().zip(next.key(b, own));
                both.all(|(a, b)| a <= b)
            });
        }
    }
    all
}
