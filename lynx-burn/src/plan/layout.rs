//! The chain as a planner sees it: names of segments and the layers they form.
//!
//! Partitions and policies speak of layers, the runtime of segments; this is
//! the one place where the two meet. It knows nothing of what a segment costs
//! or computes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::ids::SegmentId;

/// One unit of recompute: its name and the layer it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// What kind of segment it is; the same name recurs in every like layer.
    pub name: String,
    /// The layer it is a part of, counted from the input of the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<usize>,
    /// Whether a collective follows it where several ranks share the chain: what it hands on is
    /// summed over them before the next segment begins, and so is the gradient on its way back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summed: bool,
}

impl Segment {
    /// A segment that belongs to no layer, such as an embedding or a head.
    pub fn outside(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            layer: None,
            summed: false,
        }
    }

    /// A segment that is a part of `layer`.
    pub fn in_layer(layer: usize, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            layer: Some(layer),
            summed: false,
        }
    }

    /// The same with a collective after it.
    #[must_use]
    pub fn summed(self) -> Self {
        Self {
            summed: true,
            ..self
        }
    }
}

/// The segments of a whole chain, in order, with their layers checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Segment>", into = "Vec<Segment>")]
pub struct ChainLayout {
    segments: Vec<Segment>,
}

/// A list of segments that is no chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// There is nothing to run.
    #[error("a chain needs at least one segment, got 0")]
    Empty,
    /// A layer is skipped, comes too early, or is cut in two.
    #[error(
        "{segment} is of layer {layer}, but the next new layer there is {expected}: \
         layers must appear as 0, 1, 2, .. and each in one piece"
    )]
    LayerOutOfOrder {
        /// The segment at fault.
        segment: SegmentId,
        /// The layer it claims.
        layer: usize,
        /// The layer that could have begun there.
        expected: usize,
    },
}

impl ChainLayout {
    /// Checks that the layers are 0, 1, 2, .. and that each is one contiguous run.
    pub fn new(segments: Vec<Segment>) -> Result<Self, LayoutError> {
        if segments.is_empty() {
            return Err(LayoutError::Empty);
        }
        let mut expected = 0;
        let mut before = None;
        for (index, segment) in segments.iter().enumerate() {
            if let Some(layer) = segment.layer
                && before != Some(layer)
            {
                if layer != expected {
                    return Err(LayoutError::LayerOutOfOrder {
                        segment: SegmentId(index),
                        layer,
                        expected,
                    });
                }
                expected += 1;
            }
            before = segment.layer;
        }
        Ok(Self { segments })
    }

    /// The same chain for one rank, which has nobody to share with: no collective follows any
    /// segment.
    #[must_use]
    pub fn without_collectives(mut self) -> Self {
        for segment in &mut self.segments {
            segment.summed = false;
        }
        self
    }

    /// Whether a collective follows `segment`; false past the end.
    pub fn is_summed(&self, segment: usize) -> bool {
        self.segments.get(segment).is_some_and(|found| found.summed)
    }

    /// All segments, from the input to the output.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The number of segments.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Always false: a chain has at least one segment.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The number of layers. When no segment names a layer, every segment
    /// counts as a layer of its own, so that plain chains can be dealt too.
    pub fn layers(&self) -> usize {
        match self.segments.iter().rev().find_map(|s| s.layer) {
            Some(last) => last + 1,
            None => self.segments.len(),
        }
    }

    /// The segments of `layer`; empty, at the end of the chain, when there is
    /// no such layer.
    pub fn layer_range(&self, layer: usize) -> Range<usize> {
        let end = self.segments.len();
        let mut members = (0..end).filter(|&segment| self.layer_of(segment) == Some(layer));
        match members.next() {
            Some(first) => first..members.next_back().unwrap_or(first) + 1,
            None => end..end,
        }
    }

    /// The layer of `segment`; `None` for one outside layers or past the end.
    /// When no segment names a layer, every segment is its own.
    pub fn layer_of(&self, segment: usize) -> Option<usize> {
        let found = self.segments.get(segment)?;
        if found.layer.is_none() && self.segments.iter().all(|s| s.layer.is_none()) {
            return Some(segment);
        }
        found.layer
    }
}

impl TryFrom<Vec<Segment>> for ChainLayout {
    type Error = LayoutError;

    fn try_from(segments: Vec<Segment>) -> Result<Self, Self::Error> {
        Self::new(segments)
    }
}

impl From<ChainLayout> for Vec<Segment> {
    fn from(layout: ChainLayout) -> Self {
        layout.segments
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ChainLayout, LayoutError, Segment};
    use crate::ids::SegmentId;

    fn chain(layers: &[Option<usize>]) -> Result<ChainLayout, LayoutError> {
        let segment = |&layer| Segment {
            layer,
            ..Segment::outside("s")
        };
        ChainLayout::new(layers.iter().map(segment).collect())
    }

    #[test]
    fn a_chain_without_segments_is_refused() {
        assert_eq!(chain(&[]), Err(LayoutError::Empty));
    }

    #[test]
    fn a_skipped_an_early_and_a_cut_layer_are_refused_with_their_place() {
        let cases: [(&[Option<usize>], usize, usize, usize); 4] = [
            (&[Some(1)], 0, 1, 0),
            (&[None, Some(0), Some(2)], 2, 2, 1),
            (&[Some(0), Some(1), Some(0)], 2, 0, 2),
            (&[Some(0), None, Some(0)], 2, 0, 1),
        ];
        for (layers, segment, layer, expected) in cases {
            let refused = LayoutError::LayerOutOfOrder {
                segment: SegmentId(segment),
                layer,
                expected,
            };
            assert_eq!(chain(layers), Err(refused), "{layers:?}");
        }
    }

    #[test]
    fn a_file_with_a_broken_chain_is_refused_while_it_is_read() {
        let text = r#"[{"name":"a","layer":0},{"name":"b","layer":2}]"#;
        let error = serde_json::from_str::<ChainLayout>(text).unwrap_err();
        assert!(error.to_string().contains("layer 2"), "{error}");
    }

    #[test]
    fn without_layers_every_segment_is_a_layer_of_its_own() {
        let layout = chain(&[None; 3]).unwrap();
        assert_eq!(layout.layers(), 3);
        for segment in 0..3 {
            assert_eq!(layout.layer_of(segment), Some(segment));
            assert_eq!(layout.layer_range(segment), segment..segment + 1);
        }
        assert_eq!(layout.layer_of(3), None);
        assert_eq!(layout.layer_range(3), 3..3);
    }

    proptest! {
        /// Oracle: the layers are built from sizes that are known beforehand.
        #[test]
        fn layers_are_found_where_they_were_put(
            pieces in prop::collection::vec((1usize..4, 0usize..3), 1..6),
            before in 0usize..3,
        ) {
            let mut layers = vec![None; before];
            let mut ranges = Vec::new();
            for (layer, (inside, after)) in pieces.into_iter().enumerate() {
                ranges.push(layers.len()..layers.len() + inside);
                layers.extend(vec![Some(layer); inside]);
                layers.extend(vec![None; after]);
            }
            let layout = chain(&layers).unwrap();
            prop_assert_eq!(layout.layers(), ranges.len());
            for (layer, range) in ranges.iter().enumerate() {
                prop_assert_eq!(layout.layer_range(layer), range.clone());
            }
            for (segment, layer) in layers.iter().enumerate() {
                prop_assert_eq!(layout.layer_of(segment), *layer);
            }
            let text = serde_json::to_string(&layout).unwrap();
            prop_assert_eq!(serde_json::from_str::<ChainLayout>(&text).unwrap(), layout);
        }
    }
}
