//! All choices for one layer that could be part of a best plan.
//!
//! A layer's choices that are no less in any measure than other choices can be forgotten. The
//! measures are built segment by segment, and beginnings are compared in the same way: one is
//! superfluous if another is no more, even after what it can cost more to go on from the other's
//! last choice.

use std::time::Instant;

use super::skyline::Skyline;
use super::space::Space;
use super::sums::{ALL, Label};

/// The limits within which choices are looked for.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Exposed time of a step that is known to be reached.
    pub(super) exposed: u64,
    /// The most bytes of all micro-batches in flight.
    pub(super) bytes: u64,
    /// The most beginnings to follow, where the best need not be found.
    pub(super) width: usize,
    /// When to give up.
    pub(super) until: Option<Instant>,
}

/// Labels, and whether they are all that matter.
pub(super) struct Front {
    pub(super) labels: Vec<Label>,
    pub(super) complete: bool,
}

/// The labels that no other makes superfluous; `None` if there was no time.
pub(super) fn front(space: &Space, limits: &Limits) -> Option<Front> {
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
            for (choices, last, key) in beginnings.iter() {
                let choices = choices | ((own as u128) << (4 * segment));
                let added = step.key(last, own);
                if key[1] + added[1] + rest[own] > limits.bytes {
                    continue;
                }
                next.push_if(choices, own, |at| {
                    let value = key[at] + added[at];
                    (value <= most[at]).then(|| value.max(slack[at]))
                });
            }
        }
        beginnings = next.undominated(&step.penalty, limits.until)?;
        complete &= !beginnings.narrow(limits.width);
    }
    let labels = beginnings
        .iter()
        .map(|(choices, _, _)| space.label(choices));
    Some(Front {
        labels: labels.collect(),
        complete,
    })
}
