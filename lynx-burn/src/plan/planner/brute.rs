//! Plain enumeration, and random problems small enough for it: what planners are tested against.

use super::choice::{LayerGroup, SegmentChoice, StagePlan};
use super::evaluate::{Cost, evaluate_without_budget};
use super::problem::{Ends, SegmentCost, StageProblem, Windows};
use crate::plan::cluster::Window;
use crate::units::{Bytes, Nanos};

/// Numbers that look random (splitmix64), the same every time.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A problem with this many segments a layer, and at most so many usable windows.
pub(super) fn problem(dice: &mut Dice, segments: usize, windows: usize) -> StageProblem {
    let small = 1 + dice.below(12);
    let mut costs: Vec<SegmentCost> = (0..segments)
        .map(|index| SegmentCost {
            name: format!("s{index}"),
            forward: Nanos(dice.below(small)),
            recompute: Nanos(dice.below(small)),
            tape: Bytes(dice.below(20)),
            kept_input: Bytes(dice.below(8)),
            notes: Bytes(dice.below(4)),
            workspace: Bytes(dice.below(6)),
            collective: dice.one_in(5).then(|| Nanos(dice.below(9))),
        })
        .collect();
    let split = 1 + dice.below(segments as u64) as usize;
    if dice.one_in(2) {
        costs[split - 1].collective = Some(Nanos(3));
    }
    let mut room = || Some(Nanos(dice.below(16)));
    let mut all = Windows {
        f1: room(),
        f2: room(),
        b1: room(),
        b2: room(),
        send: room(),
        recv: room(),
        bubble: room(),
        entry: Nanos::ZERO,
    };
    if dice.one_in(2) {
        all.entry = Nanos(dice.below(9));
    }
    let mut on: Vec<Window> = Vec::new();
    while on.len() < windows {
        let window = Window::ALL[dice.below(7) as usize];
        if !on.contains(&window) {
            on.push(window);
        }
    }
    let steady = dice.below(4);
    let cool_down = if steady == 0 {
        1 + dice.below(3)
    } else {
        dice.below(4)
    };
    let mut ends = || Ends {
        tape: Bytes(dice.below(9)),
        workspace: Bytes(dice.below(30)),
    };
    let (before, after) = (ends(), ends());
    StageProblem {
        stage: 0,
        layers: 1 + dice.below(4) as usize,
        segments: costs,
        split,
        in_flight: cool_down + u64::from(steady > 0),
        steady,
        cool_down,
        windows: all.only(|window| on.contains(&window)),
        forward: Nanos(0),
        backward: Nanos(0),
        fixed: Bytes(dice.below(50)),
        before,
        after,
        budget: Bytes(u64::MAX),
    }
}

/// Every list of choices for a layer.
fn layers(problem: &StageProblem) -> Vec<Vec<SegmentChoice>> {
    let windows = Window::ALL.into_iter().filter(|&w| problem.usable(w));
    let mut all = vec![SegmentChoice::Retain, SegmentChoice::Exposed];
    all.extend(windows.map(SegmentChoice::InWindow));
    let mut lists = vec![Vec::new()];
    for _ in &problem.segments {
        let longer = |list: Vec<SegmentChoice>| {
            let more = all.iter().map(move |&choice| {
                let mut list = list.clone();
                list.push(choice);
                list
            });
            more.collect::<Vec<_>>()
        };
        lists = lists.into_iter().flat_map(longer).collect();
    }
    lists
}

/// Every plan with one group or, if asked for, two, that breaks no rule but the budget.
pub(super) fn all_plans(problem: &StageProblem, two_groups: bool) -> Vec<(StagePlan, Cost)> {
    let lists = layers(problem);
    let mut plans: Vec<StagePlan> = lists
        .iter()
        .map(|list| StagePlan::uniform(problem.layers, list.clone()))
        .collect();
    if two_groups {
        for size in 1..problem.layers {
            for first in &lists {
                for second in &lists {
                    let groups = vec![
                        LayerGroup::new(size, first.clone()),
                        LayerGroup::new(problem.layers - size, second.clone()),
                    ];
                    plans.push(StagePlan { groups });
                }
            }
        }
    }
    let costs = plans.into_iter().filter_map(|plan| {
        let cost = evaluate_without_budget(problem, &plan).ok()?;
        Some((plan, cost))
    });
    costs.collect()
}
