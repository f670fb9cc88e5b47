//! All choices for one layer that could be part of a best plan.
//!
//! A layer's choices that are no less in any measure than other choices can be forgotten. The
//! measures are built segment by segment, and beginnings are compared in the same way: one is
//! superfluous if another is no more, and going on from the other's last choice is none either.

use std::time::Instant;

use super::skyline::{Skyline, Tag};
use super::space::{Guide, Space, pair};
use super::sums::{ALL, Label};

/// The limits within which choices are looked for.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    /// Exposed time of a step that is known to be reached.
    pub(super) exposed: u64,
    /// The most bytes of all micro-batches in flight.
    pub(super) bytes: u64,
    /// The most beginnings to follow, where the best need not be found.
    pub(super) width: usize,
    /// What choices cost, and how much more than the least they may.
    pub(super) guide: Option<(&'a Guide, f64)>,
    /// When to give up.
    pub(super) until: Option<Instant>,
}

/// Labels, and whether they are all that matter.
pub(super) struct Front {
    pub(super) labels: Vec<Label>,
    pub(super) complete: bool,
}

/// The labels that no other makes superfluous; `None` if there was no time.
pub(super) fn front(space: &Space, limits: &Limits<'_>) -> Option<Front> {
    let mut most: Vec<u64> = space.measures.iter().map(|measure| measure.most).collect();
    (most[0], most[1]) = (limits.exposed, limits.bytes);
    let mut beginnings = Skyline::start(most.len());
    let mut complete = true;
    for (segment, step) in space.steps.iter().enumerate() {
        let slack: Vec<u64> = (space.measures.iter())
            .map(|measure| measure.slack[segment + 1])
            .collect();
        let none = [0; ALL.len()];
        let rest = space
            .steps
            .get(segment + 1)
            .map_or(&none, |next| &next.rest);
        let mut next = Skyline::new(most.len());
        for &own in &space.usable {
            if limits.until.is_some_and(|until| Instant::now() > until) {
                return None;
            }
            for (tag, key) in beginnings.iter() {
                let before = tag.last;
                let added = step.key(before, own);
                if key[1] + added[1] + rest[own] > limits.bytes {
                    continue;
                }
                let mut tag = Tag {
                    choices: tag.choices | ((own as u128) << (4 * segment)),
                    last: own,
                    ..*tag
                };
                if let Some((guide, gap)) = limits.guide {
                    tag.cost += guide.costs[segment][pair(before, own)];
                    tag.whole = tag.cost + guide.rest[segment + 1][own];
                    if tag.whole - guide.least > gap {
                        continue;
                    }
                }
                next.push_if(tag, |at| {
                    let value = key[at] + added[at];
                    (value <= most[at]).then(|| value.max(slack[at]))
                });
            }
        }
        beginnings = next.undominated(&step.covers, limits.until)?;
        complete &= !beginnings.narrow(limits.width);
    }
    let labels = beginnings.iter().map(|(tag, _)| space.label(tag.choices));
    Some(Front {
        labels: labels.collect(),
        complete,
    })
}
