//! Dealing layers to stages so that the largest cost is as small as possible: the pure algorithm.
//!
//! Costs are given by stage and number of layers and asked for only where they can matter, because
//! each is a planner's search. It knows nothing of what a cost is.

/// What a stage with some layers costs.
pub(super) trait Costs {
    /// A cost that is no more than that of [`Costs::cost`], without a search. Rises with layers.
    fn least(&mut self, stage: usize, layers: usize) -> u64;

    /// The cost that is to be balanced, and another whose sum decides among equals; `None` where
    /// the layers cannot be there.
    fn cost(&mut self, stage: usize, layers: usize) -> Option<(u64, u64)>;
}

/// The number of layers of each stage, at least one, such that the largest cost is least and,
/// among those, the sum of the others. `start` is a division to begin with; `None` if there is
/// none that every stage can hold.
pub(super) fn min_max(
    stages: usize,
    layers: usize,
    start: &[usize],
    costs: &mut impl Costs,
) -> Option<Vec<usize>> {
    if stages == 0 || layers < stages {
        return None;
    }
    // No stage of a better division costs more than the start does.
    let known = (0..stages)
        .map(|stage| costs.cost(stage, start[stage]).map(|cost| cost.0))
        .collect::<Option<Vec<u64>>>();
    let limit = known
        .and_then(|all| all.into_iter().max())
        .unwrap_or(u64::MAX);
    let table = table(stages, layers, limit, costs);
    let largest = solve(&table, layers, |before, own| before.max(own.0))?.0;
    let within: Vec<Vec<Option<(u64, u64)>>> = table
        .into_iter()
        .map(|row| {
            row.into_iter()
                .map(|cost| cost.filter(|c| c.0 <= largest))
                .collect()
        })
        .collect();
    let (_, counts) = solve(&within, layers, |before, own| before.saturating_add(own.1))?;
    Some(counts)
}

/// The costs for every stage and number of layers that can be part of a division within the limit;
/// index 0 is one layer.
fn table(
    stages: usize,
    layers: usize,
    limit: u64,
    costs: &mut impl Costs,
) -> Vec<Vec<Option<(u64, u64)>>> {
    let most: Vec<usize> = (0..stages)
        .map(|stage| {
            let counts = 1..=layers - (stages - 1);
            counts
                .take_while(|&count| costs.least(stage, count) <= limit)
                .count()
        })
        .collect();
    let all = most.iter().fold(0, |sum: usize, &n| sum.saturating_add(n));
    let row = |stage: usize| {
        // All others together cannot hold more than this.
        let others = all - most[stage];
        let mut row = Vec::with_capacity(most[stage]);
        for count in 1..=most[stage] {
            let needed = count + others >= layers;
            row.push(if needed {
                costs.cost(stage, count)
            } else {
                None
            });
        }
        row
    };
    (0..stages).map(row).collect()
}

/// The least value that `join` makes over all divisions, and one that has it.
fn solve(
    table: &[Vec<Option<(u64, u64)>>],
    layers: usize,
    join: impl Fn(u64, (u64, u64)) -> u64,
) -> Option<(u64, Vec<usize>)> {
    // For every number of layers dealt so far: the value, and what the last stage got.
    let mut steps: Vec<Vec<Option<(u64, usize)>>> = Vec::new();
    let mut before: Vec<Option<u64>> = vec![None; layers + 1];
    before[0] = Some(0);
    for row in table {
        let mut next: Vec<Option<(u64, usize)>> = vec![None; layers + 1];
        for (dealt, value) in before.iter().enumerate() {
            let Some(value) = value else { continue };
            for (index, cost) in row.iter().enumerate().take(layers - dealt) {
                let Some(cost) = cost else { continue };
                let joined = (join(*value, *cost), index + 1);
                let slot = &mut next[dealt + index + 1];
                if slot.is_none_or(|known| joined.0 < known.0) {
                    *slot = Some(joined);
                }
            }
        }
        before = next.iter().map(|slot| slot.map(|found| found.0)).collect();
        steps.push(next);
    }
    let value = before[layers]?;
    let mut counts = Vec::with_capacity(table.len());
    let mut left = layers;
    for step in steps.iter().rev() {
        let (_, count) = step[left]?;
        counts.push(count);
        left -= count;
    }
    counts.reverse();
    Some((value, counts))
}
