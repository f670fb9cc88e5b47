//! What the knapsack need not look at: states no less than another, and a bound on the rest.

use std::collections::BTreeMap;

/// Some layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) time: u64,
    pub(super) held: u64,
    pub(super) moment: u64,
    /// The last layer's pattern, and the state before it.
    pub(super) from: (usize, usize),
}

/// The lower convex hull of what a layer holds and takes, from the least held on.
pub(super) fn hull(patterns: impl Iterator<Item = (u64, u64)>) -> Vec<(f64, f64)> {
    let points = patterns.map(|(held, time)| (held as f64, time as f64));
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if hull.last().is_some_and(|last| last.1 <= point.1) {
            continue;
        }
        while let [.., a, b] = hull[..] {
            if (b.1 - a.1) * (point.0 - a.0) < (point.1 - a.1) * (b.0 - a.0) {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// No more than what this many layers take that may hold so much together; `None` if they cannot.
pub(super) fn least_time(hull: &[(f64, f64)], layers: u64, held: u64) -> Option<u64> {
    if layers == 0 {
        return Some(0);
    }
    let (count, each) = (layers as f64, held as f64 / layers as f64);
    let above = hull.partition_point(|point| point.0 <= each);
    let below = hull.get(above.checked_sub(1)?)?;
    let time = match hull.get(above) {
        None => below.1,
        Some(next) => below.1 + (next.1 - below.1) * (each - below.0) / (next.0 - below.0),
    };
    // A little less, for what rounding may add.
    Some((count * time * (1.0 - 1e-9) - 1.0).max(0.0) as u64)
}

/// The states that are less than every other in time, held bytes or highest moment; by time.
pub(super) fn undominated(mut states: Vec<State>) -> Vec<State> {
    states.sort_by_key(|s| (s.time, s.held, s.moment));
    // Of the states so far: held bytes, and the least moment with no more of them. It falls.
    let mut stairs: BTreeMap<u64, u64> = BTreeMap::new();
    states.retain(|state| {
        let below = stairs.range(..=state.held).next_back();
        if below.is_some_and(|(_, &moment)| moment <= state.moment) {
            return false;
        }
        let above = stairs.range(state.held..);
        let worse: Vec<u64> = above
            .take_while(|(_, moment)| **moment >= state.moment)
            .map(|(&held, _)| held)
            .collect();
        for held in worse {
            stairs.remove(&held);
        }
        stairs.insert(state.held, state.moment);
        true
    });
    states
}
