//! Deals against every deal there is, and how many costs they ask for.

use super::*;
use crate::plan::planner::brute::Dice;
use std::collections::{HashMap, HashSet};

/// Costs that are drawn once, above a bound that rises.
struct Drawn {
    least: HashMap<(usize, Range), u64>,
    costs: HashMap<(usize, Range), Option<(u64, u64)>>,
    settled: HashSet<(usize, Range)>,
}

impl Drawn {
    fn new(dice: &mut Dice, stages: usize, kinds: usize, layers: usize, spread: u64) -> Self {
        let (mut least, mut costs) = (HashMap::new(), HashMap::new());
        for stage in 0..stages {
            for kind in 0..kinds {
                let mut sum = dice.below(20);
                for count in 1..=layers {
                    sum += 5 + dice.below(10);
                    let cost = sum + dice.below(1 + spread);
                    let fits = count == 1 || dice.below(8) > 0;
                    least.insert((stage, (kind, count)), sum);
                    let other = sum + dice.below(9);
                    costs.insert((stage, (kind, count)), fits.then_some((cost, other)));
                }
            }
        }
        Self {
            least,
            costs,
            settled: HashSet::new(),
        }
    }

    /// The largest cost and the sum of the others; `None` where the deal is not possible.
    fn value(&self, layers: &Layers, deal: &[usize]) -> Option<(u64, u64)> {
        let ranges = layers.ranges(deal)?;
        let costs = ranges.into_iter().enumerate().map(|key| self.costs[&key]);
        let costs: Vec<(u64, u64)> = costs.collect::<Option<_>>()?;
        let largest = costs.iter().map(|cost| cost.0).max()?;
        Some((largest, costs.iter().map(|cost| cost.1).sum()))
    }
}

impl Costs for Drawn {
    fn least(&mut self, stage: usize, range: Range) -> Option<u64> {
        self.least.get(&(stage, range)).copied()
    }

    fn cost(&mut self, stage: usize, range: Range) -> Option<(u64, u64)> {
        let least = self.least(stage, range)?;
        match self.settled.contains(&(stage, range)) {
            true => self.costs[&(stage, range)],
            false => Some((least, least)),
        }
    }

    fn settle(&mut self, deal: &[Range]) -> bool {
        let before = self.settled.len();
        self.settled.extend(deal.iter().copied().enumerate());
        self.settled.len() > before
    }
}

/// Every way to deal layers to stages.
fn deals(layers: usize, stages: usize) -> Vec<Vec<usize>> {
    if stages == 1 {
        return vec![vec![layers]];
    }
    let first = 1..=layers - (stages - 1);
    let with = |first| {
        let rest = deals(layers - first, stages - 1).into_iter();
        rest.map(move |rest| [vec![first], rest].concat())
    };
    first.flat_map(with).collect()
}

#[test]
fn a_deal_is_the_best_of_all_whatever_the_kinds_costs_and_what_does_not_fit() {
    let mut impossible = 0;
    for case in 0..2000 {
        let mut dice = Dice(case);
        let count = 1 + dice.below(9) as usize;
        let stages = 1 + dice.below(count.min(4) as u64) as usize;
        let kinds = 1 + dice.below(3);
        let mut kind = 0;
        let each: Vec<usize> = (0..count)
            .map(|_| {
                if dice.below(3) == 0 {
                    kind = dice.below(kinds) as usize;
                }
                kind
            })
            .collect();
        let layers = Layers::new(&each);
        let spread = [0, 10, 100][case as usize % 3];
        let mut costs = Drawn::new(&mut dice, stages, kinds as usize, count, spread);
        let all = deals(count, stages);
        let best = all
            .iter()
            .filter_map(|deal| costs.value(&layers, deal))
            .min();
        let found = min_max(stages, &layers, &mut costs);
        let value = found.as_ref().and_then(|deal| costs.value(&layers, deal));
        assert_eq!(value, best, "case {case}: {found:?} of {each:?}");
        assert_eq!(found.is_some(), best.is_some());
        impossible += usize::from(best.is_none());
    }
    assert!((100..1000).contains(&impossible), "{impossible}");
}

#[test]
fn costs_that_equal_their_bounds_are_asked_for_once_a_stage() {
    for case in 0..100 {
        let mut dice = Dice(case);
        let mut costs = Drawn::new(&mut dice, 8, 1, 50, 0);
        let drawn = costs.least.iter();
        costs.costs = drawn
            .map(|(&key, &least)| (key, Some((least, least))))
            .collect();
        let layers = Layers::new(&[0; 50]);
        assert!(min_max(8, &layers, &mut costs).is_some());
        assert_eq!(costs.settled.len(), 8);
    }
}

#[test]
fn layers_of_several_kinds_lie_on_one_stage_only_within_a_run() {
    let layers = Layers::new(&[0, 0, 1, 1, 1, 0]);
    assert_eq!(layers.range(0, 2), Some((0, 2)));
    assert_eq!(layers.range(1, 2), None);
    assert_eq!(layers.range(2, 3), Some((1, 3)));
    assert_eq!((layers.range(5, 2), layers.range(6, 1)), (None, None));
    assert_eq!((layers.range(0, 0), layers.first((1, 3))), (None, Some(2)));
    assert_eq!(
        (layers.first((0, 2)), layers.first((0, 3))),
        (Some(0), None)
    );
    let ranges = vec![(0, 2), (1, 3), (0, 1)];
    assert_eq!(layers.ranges(&[2, 3, 1]), Some(ranges));
    assert_eq!(layers.ranges(&[3, 2, 1]), None);
}
