//! Which layers are alike, and which of them are measured.
//!
//! Two layers are alike if their segments have the same names and keep parameters of the same
//! shapes in the same order, learn in the same places, and neither or both hold the loss. The
//! layers of a kind need not get the same boundary: the first one of a model may miss what the
//! others join. So the one that stands for all is the first of those that get the most bytes.

use std::ops::Range;

use super::MeasureError;
use super::subject::Facts;
use crate::ids::SegmentId;
use crate::plan::layout::ChainLayout;
use crate::plan::profile::LayerRun;

/// The chain in the three parts of a profile.
#[derive(Debug)]
pub(super) struct Deal {
    /// Nothing before it keeps anything.
    pub(super) first_trainable: usize,
    /// The segments before the first layer.
    pub(super) embedding: Range<usize>,
    /// The segments after the last layer.
    pub(super) head: Range<usize>,
    pub(super) kinds: Vec<Kind>,
    /// The kind of every layer.
    layers: Vec<usize>,
}

/// Layers that are alike.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    /// The layers, by their segments.
    members: Vec<Range<usize>>,
    /// Those that are measured.
    pub(super) measured: Vec<Range<usize>>,
}

impl Deal {
    pub(super) fn new(
        layout: &ChainLayout,
        facts: &[Facts],
        every_layer: bool,
    ) -> Result<Self, MeasureError> {
        let trainable = |facts: &Facts| facts.parameters.iter().any(|p| p.trainable);
        let first_trainable = facts
            .iter()
            .position(trainable)
            .ok_or(MeasureError::NothingTrainable)?;
        let ranges: Vec<_> = (0..layout.layers())
            .map(|l| layout.layer_range(l))
            .collect();
        refuse_gaps(layout, &ranges)?;
        let (first, last) = match (ranges.first(), ranges.last()) {
            (Some(first), Some(last)) => (first.start, last.end),
            _ => (0, 0),
        };
        let like = |a: &Range<usize>, b: &Range<usize>| {
            let same = |(a, b): (usize, usize)| {
                let names = layout.segments();
                names[a].name == names[b].name
                    && facts[a].like(&facts[b])
                    && (a < first_trainable) == (b < first_trainable)
                    && (a + 1 == layout.len()) == (b + 1 == layout.len())
            };
            a.len() == b.len() && a.clone().zip(b.clone()).all(same)
        };
        let mut kinds: Vec<Kind> = Vec::new();
        let mut layers = Vec::with_capacity(ranges.len());
        for (layer, range) in ranges.into_iter().enumerate() {
            let known = kinds.iter().position(|kind| like(&kind.members[0], &range));
            layers.push(known.unwrap_or(kinds.len()));
            match known {
                Some(kind) => kinds[kind].members.push(range),
                None => kinds.push(Kind {
                    name: format!("layer-{layer}"),
                    members: vec![range],
                    measured: Vec::new(),
                }),
            }
        }
        if let [only] = kinds.as_mut_slice() {
            "layer".clone_into(&mut only.name);
        }
        for kind in &mut kinds {
            kind.choose(facts, first_trainable, every_layer);
        }
        Ok(Self {
            first_trainable,
            embedding: 0..first,
            head: last..layout.len(),
            kinds,
            layers,
        })
    }

    /// Consecutive layers of one kind, as a profile lists them.
    pub(super) fn runs(&self) -> Vec<LayerRun> {
        self.layers
            .chunk_by(|a, b| a == b)
            .map(|run| LayerRun {
                kind: self.kinds[run[0]].name.clone(),
                count: run.len(),
            })
            .collect()
    }

    /// Whether these segments are a layer, not what lies around the layers.
    pub(super) fn is_layer(&self, range: &Range<usize>) -> bool {
        *range != self.embedding && *range != self.head
    }

    /// What is measured as one: layers, and what lies before and after all of them.
    pub(super) fn measured_ranges(&self) -> Vec<Range<usize>> {
        let layers = self.kinds.iter().flat_map(|kind| kind.measured.clone());
        let all = std::iter::once(self.embedding.clone())
            .chain(layers)
            .chain([self.head.clone()]);
        all.filter(|range| !range.is_empty()).collect()
    }

    /// The segments of all of these, ascending.
    pub(super) fn measured_segments(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.measured_ranges().into_iter().flatten().collect();
        all.sort_unstable();
        all
    }
}

impl Kind {
    fn choose(&mut self, facts: &[Facts], first_trainable: usize, every_layer: bool) {
        if every_layer {
            self.measured = self.members.clone();
            return;
        }
        // The segment where learning begins computes no gradient of its input: not what stands
        // for others, if there is a choice.
        let weight = |range: &Range<usize>| {
            (
                facts[range.start].input_bytes,
                range.start > first_trainable,
            )
        };
        let most = self.members.iter().map(weight).max();
        let first = self
            .members
            .iter()
            .find(|&range| Some(weight(range)) == most);
        self.measured = first.cloned().into_iter().collect();
    }
}

fn refuse_gaps(layout: &ChainLayout, ranges: &[Range<usize>]) -> Result<(), MeasureError> {
    for (before, pair) in ranges.windows(2).enumerate() {
        if let [a, b] = pair
            && a.end != b.start
        {
            return Err(MeasureError::BetweenLayers {
                segment: SegmentId(a.end),
                name: layout.segments()[a.end].name.clone(),
                before,
                after: before + 1,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
