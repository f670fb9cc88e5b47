//! Dealing layers to stages so that the largest cost is as small as possible: the pure algorithm.
//!
//! A stage holds layers of one kind that follow each other. What they cost is a planner's search,
//! so costs are asked for only where they matter: the best deal is looked for with what is known
//! or, where nothing is, a lower bound; the costs of that deal are settled; and when the best deal
//! has no bound left in it, nothing can be better. It knows nothing of what a cost is.

/// Layers that follow each other on one stage: the kind, and how many.
pub(super) type Range = (usize, usize);

/// What a stage with some layers costs.
pub(super) trait Costs {
    /// A cost that is no more than the true one, without a search; `None` where the layers cannot
    /// be there. Rises with the number of layers.
    fn least(&mut self, stage: usize, range: Range) -> Option<u64>;

    /// The cost that is to be balanced, and another whose sum decides among equals: true ones
    /// where they are settled, no more than true where not. `None` where the layers cannot be
    /// there.
    fn cost(&mut self, stage: usize, range: Range) -> Option<(u64, u64)>;

    /// Finds out the true costs of a range for every stage. Whether any was not known.
    fn settle(&mut self, deal: &[Range]) -> bool;
}

/// A model's layers by kind.
pub(super) struct Layers {
    /// The kind of each, and how many of the kind follow, itself included.
    each: Vec<Range>,
    kinds: usize,
}

impl Layers {
    /// Kinds are numbers from zero on.
    pub(super) fn new(kinds: &[usize]) -> Self {
        let mut each: Vec<Range> = Vec::with_capacity(kinds.len());
        for &kind in kinds.iter().rev() {
            let follow = match each.last() {
                Some(&(next, follow)) if next == kind => follow + 1,
                _ => 1,
            };
            each.push((kind, follow));
        }
        each.reverse();
        Self {
            kinds: kinds.iter().max().map_or(0, |most| most + 1),
            each,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    /// `None` if they are of several kinds or not all there.
    pub(super) fn range(&self, start: usize, count: usize) -> Option<Range> {
        let &(kind, follow) = self.each.get(start)?;
        (1..=follow).contains(&count).then_some((kind, count))
    }

    /// Where the first such layers begin.
    pub(super) fn first(&self, (kind, count): Range) -> Option<usize> {
        let fits = |&(own, follow): &Range| own == kind && follow >= count && count > 0;
        self.each.iter().position(fits)
    }

    /// `None` if a stage would have none, or layers of several kinds.
    pub(super) fn ranges(&self, deal: &[usize]) -> Option<Vec<Range>> {
        let mut start = 0;
        let range = |&count: &usize| {
            let range = self.range(start, count);
            start += count;
            range
        };
        deal.iter().map(range).collect()
    }
}

/// The number of layers of each stage, at least one, such that the largest cost is least and,
/// among those, the sum of the others. `None` if there is no division that every stage can hold.
pub(super) fn min_max(
    stages: usize,
    layers: &Layers,
    costs: &mut impl Costs,
) -> Option<Vec<usize>> {
    if stages == 0 || layers.count() < stages {
        return None;
    }
    // The largest cost is hardly more than a fair share: only if none is found is more looked at.
    let share = layers.count().div_ceil(stages);
    let fair = (0..stages)
        .flat_map(|stage| (0..layers.kinds).map(move |kind| (stage, kind)))
        .filter_map(|(stage, kind)| costs.least(stage, (kind, share)))
        .max();
    let fair = fair.unwrap_or(u64::MAX);
    let mut limits = [
        fair.saturating_add(fair / 4),
        fair.saturating_mul(2),
        u64::MAX,
    ]
    .into_iter();
    let mut limit = limits.next()?;
    loop {
        match best(stages, layers, limit, costs) {
            Some(deal) => {
                if !costs.settle(&layers.ranges(&deal)?) {
                    return Some(deal);
                }
            }
            None => limit = limits.next()?,
        }
    }
}

/// Costs by stage, kind and number of layers; index 0 is one layer.
type Table = Vec<Vec<Vec<Option<(u64, u64)>>>>;

/// The best division by what is known, if one costs no more than the limit.
fn best(stages: usize, layers: &Layers, limit: u64, costs: &mut impl Costs) -> Option<Vec<usize>> {
    let table = table(stages, layers, limit, costs);
    let largest = solve(&table, layers, u64::MAX, |before, own| before.max(own.0))?.0;
    let sum = |before: u64, own: (u64, u64)| before.saturating_add(own.1);
    Some(solve(&table, layers, largest, sum)?.1)
}

fn table(stages: usize, layers: &Layers, limit: u64, costs: &mut impl Costs) -> Table {
    let most = layers.count() - (stages - 1);
    let mut row = |stage: usize, kind: usize| {
        let mut row = Vec::new();
        for count in 1..=most {
            let range = (kind, count);
            if costs.least(stage, range).is_none_or(|least| least > limit) {
                break;
            }
            row.push(costs.cost(stage, range).filter(|cost| cost.0 <= limit));
        }
        row
    };
    (0..stages)
        .map(|stage| (0..layers.kinds).map(|kind| row(stage, kind)).collect())
        .collect()
}

/// The least value that `join` makes over all divisions without a cost above the limit, and one
/// that has it.
fn solve(
    table: &Table,
    layers: &Layers,
    limit: u64,
    join: impl Fn(u64, (u64, u64)) -> u64,
) -> Option<(u64, Vec<usize>)> {
    let all = layers.count();
    // For every number of layers dealt so far: the value, and what the last stage got.
    let mut steps: Vec<Vec<Option<(u64, usize)>>> = Vec::new();
    let mut before: Vec<Option<u64>> = vec![None; all + 1];
    before[0] = Some(0);
    for row in table {
        let mut next: Vec<Option<(u64, usize)>> = vec![None; all + 1];
        for (dealt, &(kind, follow)) in layers.each.iter().enumerate() {
            let Some(value) = before[dealt] else { continue };
            for (index, cost) in row[kind].iter().enumerate().take(follow) {
                let Some(cost) = cost.filter(|cost| cost.0 <= limit) else {
                    continue;
                };
                let joined = (join(value, cost), index + 1);
                let slot = &mut next[dealt + index + 1];
                if slot.is_none_or(|known| joined.0 < known.0) {
                    *slot = Some(joined);
                }
            }
        }
        before = next.iter().map(|slot| slot.map(|found| found.0)).collect();
        steps.push(next);
    }
    let value = before[all]?;
    let mut counts = Vec::with_capacity(table.len());
    let mut left = all;
    for step in steps.iter().rev() {
        let (_, count) = step[left]?;
        counts.push(count);
        left -= count;
    }
    counts.reverse();
    Some((value, counts))
}

#[cfg(test)]
#[path = "min_max_tests.rs"]
mod tests;
