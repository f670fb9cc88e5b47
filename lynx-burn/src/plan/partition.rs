//! Which consecutive segments every stage holds.
//!
//! A partition only says *where* the chain is cut. It does not weigh stages
//! against each other: a planner does, and hands in its layer counts or cuts.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::layout::ChainLayout;
use crate::ids::{SegmentId, StageId};

/// One range of segments per stage; together they are the whole chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Cuts", into = "Cuts")]
pub struct Partition {
    /// Never empty, begins with 0, ascends strictly, stays below `segments`.
    starts: Vec<usize>,
    segments: usize,
}

/// A partition as it stands in a file, before it is checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cuts {
    starts: Vec<usize>,
    segments: usize,
}

/// A way to cut a chain that does not give every stage something to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// Nobody would hold the chain.
    #[error("a partition needs at least one stage, got 0")]
    NoStages,
    /// Some stage would be without a layer.
    #[error("{stages} stages cannot share {layers} layers: every stage needs at least one")]
    MoreStagesThanLayers {
        /// The stages asked for.
        stages: usize,
        /// The layers of the chain.
        layers: usize,
    },
    /// Layers would be lost or invented.
    #[error("the stages are given {given} layers in total, but the chain has {layers}")]
    LayerCount {
        /// The sum of the layers given to the stages.
        given: usize,
        /// The layers of the chain.
        layers: usize,
    },
    /// A stage is given no layer.
    #[error("{stage} is given 0 layers: every stage needs at least one")]
    EmptyStage {
        /// The first such stage.
        stage: StageId,
    },
    /// A stage begins where it cannot.
    #[error(
        "{stage} cannot start at segment {start}: only a start in {allowed:?} leaves \
         every segment on one stage and no stage empty"
    )]
    BadStart {
        /// The first stage at fault.
        stage: StageId,
        /// Where it was to start.
        start: usize,
        /// Where it may start.
        allowed: Range<usize>,
    },
}

impl Partition {
    /// Deals the layers so that stages differ by one at most.
    ///
    /// When `layers = q * stages + r`, the first `r` stages hold `q + 1` layers.
    /// That is a convention, not advice: in 1F1B the early stages also hold the
    /// most micro-batches, so where memory is short [`Partition::from_layers`]
    /// with the extra layers at the end is the better choice.
    ///
    /// Segments before the first layer go to stage 0; any other segment outside
    /// layers stays with the layer before it.
    pub fn even(layout: &ChainLayout, stages: usize) -> Result<Self, PartitionError> {
        let layers = layout.layers();
        if stages == 0 {
            return Err(PartitionError::NoStages);
        }
        if stages > layers {
            return Err(PartitionError::MoreStagesThanLayers { stages, layers });
        }
        let deal = |stage| layers / stages + usize::from(stage < layers % stages);
        Self::from_layers(layout, &(0..stages).map(deal).collect::<Vec<_>>())
    }

    /// Gives stage `s` the next `layers[s]` layers. Segments outside layers go
    /// where [`Partition::even`] puts them.
    pub fn from_layers(layout: &ChainLayout, layers: &[usize]) -> Result<Self, PartitionError> {
        if layers.is_empty() {
            return Err(PartitionError::NoStages);
        }
        if let Some(stage) = layers.iter().position(|&count| count == 0) {
            let stage = StageId(stage);
            return Err(PartitionError::EmptyStage { stage });
        }
        // Saturating: a wrapped sum might look right.
        let given = layers
            .iter()
            .fold(0, |sum: usize, &n| sum.saturating_add(n));
        if given != layout.layers() {
            let layers = layout.layers();
            return Err(PartitionError::LayerCount { given, layers });
        }
        let mut starts = vec![0];
        let mut layer = 0;
        for count in &layers[..layers.len() - 1] {
            layer += count;
            starts.push(layout.layer_range(layer).start);
        }
        Self::cut(&starts, layout.len())
    }

    /// Cuts before every given segment; a cut may lie inside a layer, and a
    /// stage may consist of segments outside layers only.
    pub fn from_starts(layout: &ChainLayout, starts: &[usize]) -> Result<Self, PartitionError> {
        Self::cut(starts, layout.len())
    }

    fn cut(starts: &[usize], segments: usize) -> Result<Self, PartitionError> {
        if starts.is_empty() {
            return Err(PartitionError::NoStages);
        }
        let mut allowed = 0..segments.min(1);
        for (stage, &start) in starts.iter().enumerate() {
            if !allowed.contains(&start) {
                return Err(PartitionError::BadStart {
                    stage: StageId(stage),
                    start,
                    allowed,
                });
            }
            allowed = start + 1..segments;
        }
        Ok(Self {
            starts: starts.to_vec(),
            segments,
        })
    }

    /// The number of stages.
    pub fn stages(&self) -> usize {
        self.starts.len()
    }

    /// The number of segments of the whole chain.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// The segments of `stage`; empty, at the end of the chain, when there is
    /// no such stage.
    pub fn range(&self, stage: StageId) -> Range<usize> {
        let bound = |stage: usize| self.starts.get(stage).copied().unwrap_or(self.segments);
        bound(stage.0)..bound(stage.0.saturating_add(1))
    }

    /// The segments of every stage, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.stages()).map(|stage| self.range(StageId(stage)))
    }

    /// The stage that holds `segment`. A segment past the end of the chain is
    /// said to be on the last stage.
    pub fn stage_of(&self, segment: SegmentId) -> StageId {
        // The first start is 0, so at least one start is not above the segment.
        StageId(self.starts.partition_point(|&start| start <= segment.0) - 1)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stage, range) in self.ranges().enumerate() {
            let bar = if stage == 0 { "" } else { " | " };
            write!(f, "{bar}{}..{}", range.start, range.end)?;
        }
        Ok(())
    }
}

impl TryFrom<Cuts> for Partition {
    type Error = PartitionError;

    fn try_from(cuts: Cuts) -> Result<Self, Self::Error> {
        Self::cut(&cuts.starts, cuts.segments)
    }
}

impl From<Partition> for Cuts {
    fn from(Partition { starts, segments }: Partition) -> Self {
        Self { starts, segments }
    }
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
