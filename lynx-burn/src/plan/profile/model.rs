//! What a whole model costs: which layers are alike, and what comes before and after them.

use serde::{Deserialize, Serialize};

use super::segment::{LayerKind, SegmentProfile, WeightBytes};
use crate::plan::layout::{ChainLayout, LayoutError, Segment};

/// A whole model. Layers of one kind are described once.
///
/// Nothing is promised about a value that was built by hand until [`ModelProfile::validate`] has
/// accepted it; values from files and formulas are valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelProfile {
    /// What it is called in tables and files.
    pub name: String,
    /// The ranks that share every segment. The costs are those of one of them.
    pub tensor_parallel: usize,
    /// The tokens of one micro-batch, where that means something: for throughput only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The segments before the first layer.
    pub embedding: Vec<SegmentProfile>,
    /// Every kind of layer.
    pub kinds: Vec<LayerKind>,
    /// The layers, from the input of the model to its output.
    pub layers: Vec<LayerRun>,
    /// The segments after the last layer, with the loss.
    pub head: Vec<SegmentProfile>,
    /// What of the head's weights are the embedding's. A stage that holds both holds this once; if
    /// two stages hold one each, both have a copy, whose gradients are summed.
    #[serde(default)]
    pub tied: WeightBytes,
}

/// Consecutive layers of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerRun {
    /// The name of their kind.
    pub kind: String,
    /// How many there are.
    pub count: usize,
}

impl ModelProfile {
    /// The number of layers.
    pub fn layer_count(&self) -> usize {
        let counts = self.layers.iter().map(|run| run.count);
        counts.fold(0, usize::saturating_add)
    }

    /// The kind of a layer, as an index into `kinds`; `None` past the last layer.
    pub fn kind_index(&self, layer: usize) -> Option<usize> {
        let mut end = 0_usize;
        let run = self.layers.iter().find(|run| {
            end = end.saturating_add(run.count);
            layer < end
        })?;
        self.index_of(&run.kind)
    }

    /// The kind of a layer; `None` past the last layer.
    pub fn kind_of(&self, layer: usize) -> Option<&LayerKind> {
        self.kinds.get(self.kind_index(layer)?)
    }

    /// The kind of every layer, in order.
    pub fn layer_kinds(&self) -> impl Iterator<Item = &LayerKind> {
        self.layers.iter().flat_map(|run| {
            let kind = self.index_of(&run.kind).map(|index| &self.kinds[index]);
            kind.into_iter()
                .flat_map(|kind| std::iter::repeat_n(kind, run.count))
        })
    }

    /// The chain that this is the profile of.
    pub fn layout(&self) -> Result<ChainLayout, LayoutError> {
        let of = |segment: &SegmentProfile, layer| Segment {
            name: segment.name.clone(),
            layer,
            summed: !segment.after_forward.is_empty(),
        };
        let outside = |segment| of(segment, None);
        let layers = self.layer_kinds().enumerate().flat_map(|(layer, kind)| {
            let segments = kind.segments.iter();
            segments.map(move |segment| of(segment, Some(layer)))
        });
        let before = self.embedding.iter().map(outside);
        let after = self.head.iter().map(outside);
        ChainLayout::new(before.chain(layers).chain(after).collect())
    }

    /// The costs of every segment of that chain, in order.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentProfile> {
        let layers = self.layer_kinds().flat_map(|kind| &kind.segments);
        self.embedding.iter().chain(layers).chain(&self.head)
    }

    /// What all weights occupy on a device that holds the whole model.
    pub fn weights(&self) -> WeightBytes {
        let all = self.segments().map(|segment| segment.weights);
        all.fold(WeightBytes::default(), |sum, one| sum.plus(&one))
            .minus(&self.tied)
    }

    fn index_of(&self, kind: &str) -> Option<usize> {
        self.kinds.iter().position(|known| known.name == kind)
    }
}
