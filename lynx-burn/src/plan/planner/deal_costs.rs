//! What `min_max` balances: times with recompute, times without, or parameters.

use std::collections::HashMap;

use super::min_max::{Costs, Range};
use super::partition::Dealer;
use super::problem::StageProblem;

/// Times with recompute. A stage's time without recompute is the bound of what is not known.
pub(super) struct Times<'a> {
    dealer: &'a Dealer<'a>,
    plain: Plain<'a>,
    settled: HashMap<(usize, Range), Option<(u64, u64)>>,
    /// By stage and kind: the fewest layers that do not fit, where more do not either.
    too_many: HashMap<(usize, usize), usize>,
}

/// Times without recompute, of stages that hold whatever they are given.
pub(super) struct Plain<'a> {
    dealer: &'a Dealer<'a>,
    /// By stage and kind, of one layer on.
    known: HashMap<(usize, usize), Vec<Option<u64>>>,
}

/// What a stage holds all the time.
pub(super) struct Parameters<'a> {
    pub(super) dealer: &'a Dealer<'a>,
}

fn problem(dealer: &Dealer<'_>, stage: usize, range: Range) -> Option<StageProblem> {
    dealer.setup().problem(stage, dealer.start_of(range)?).ok()
}

impl<'a> Plain<'a> {
    pub(super) fn new(dealer: &'a Dealer<'a>) -> Self {
        Self {
            dealer,
            known: HashMap::new(),
        }
    }
}

impl Costs for Plain<'_> {
    fn least(&mut self, stage: usize, (kind, count): Range) -> Option<u64> {
        let known = self.known.entry((stage, kind)).or_default();
        while known.len() < count {
            let problem = problem(self.dealer, stage, (kind, known.len() + 1));
            known.push(problem.map(|p| p.forward.saturating_add(p.backward).0));
        }
        known[count - 1]
    }

    fn cost(&mut self, stage: usize, range: Range) -> Option<(u64, u64)> {
        self.least(stage, range).map(|time| (time, time))
    }

    fn settle(&mut self, _: &[Range]) -> bool {
        false
    }
}

impl<'a> Times<'a> {
    pub(super) fn new(dealer: &'a Dealer<'a>) -> Self {
        Self {
            dealer,
            plain: Plain::new(dealer),
            settled: HashMap::new(),
            too_many: HashMap::new(),
        }
    }
}

impl Costs for Times<'_> {
    fn least(&mut self, stage: usize, range: Range) -> Option<u64> {
        let most = self.too_many.get(&(stage, range.0));
        if most.is_some_and(|&most| range.1 >= most) {
            return None;
        }
        self.plain.least(stage, range)
    }

    fn cost(&mut self, stage: usize, range: Range) -> Option<(u64, u64)> {
        match self.settled.get(&(stage, range)) {
            Some(known) => *known,
            None => self.plain.cost(stage, range),
        }
    }

    fn settle(&mut self, deal: &[Range]) -> bool {
        let open = deal.iter().copied().enumerate();
        let open: Vec<_> = open.filter(|key| !self.settled.contains_key(key)).collect();
        self.dealer.ask_for(&open);
        for &(stage, range) in &open {
            let found = self.dealer.answer(stage, range);
            let found = found.filter(|found| found.outcome.feasible().is_some());
            let cost = found.map(|found| (found.steady.0, found.ramp.0));
            if cost.is_none() && self.dealer.planner().needs_more_for_more_layers() {
                let least = self.too_many.entry((stage, range.0)).or_insert(range.1);
                *least = range.1.min(*least);
            }
            self.settled.insert((stage, range), cost);
        }
        !open.is_empty()
    }
}

impl Costs for Parameters<'_> {
    fn least(&mut self, stage: usize, range: Range) -> Option<u64> {
        problem(self.dealer, stage, range).map(|problem| problem.fixed.0)
    }

    fn cost(&mut self, stage: usize, range: Range) -> Option<(u64, u64)> {
        self.least(stage, range).map(|bytes| (bytes, 0))
    }

    fn settle(&mut self, _: &[Range]) -> bool {
        false
    }
}
