//! What one segment costs, and the segments of one kind of layer.

use serde::{Deserialize, Serialize};

use crate::plan::cluster::Collective;
use crate::units::{Bytes, Nanos};

/// What one segment costs for one micro-batch on one tensor-parallel rank. In files, times are
/// whole nanoseconds and sizes whole bytes.
///
/// Every kept tensor belongs to one segment only, so that sums over segments are what a device
/// holds:
///
/// - a retained segment keeps its `tape`;
/// - a recomputed segment keeps its `notes` and its `kept_input` instead, the latter unless the
///   segment before it is recomputed no later and there is no collective between the two: then its
///   input is made anew. (Recomputation that repeats collectives, as Megatron-LM's does, needs no
///   kept input there.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentProfile {
    /// What kind of segment it is, as in the chain's layout.
    pub name: String,
    /// The forward, without the collective after it.
    #[serde(rename = "forward_ns")]
    pub forward: Nanos,
    /// The backward's part that the segment before waits for: the gradient of the input. The whole
    /// backward, where the parts are not known.
    #[serde(rename = "backward_input_ns")]
    pub backward_input: Nanos,
    /// The backward's part that nobody waits for: the gradients of the weights. `None` where it is
    /// not known and counted in `backward_input`.
    #[serde(
        rename = "backward_weight_ns",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub backward_weight: Option<Nanos>,
    /// Making the tape anew, without the collective after the segment.
    #[serde(rename = "recompute_ns")]
    pub recompute: Nanos,
    /// What autodiff keeps from forward to backward.
    #[serde(rename = "tape_bytes")]
    pub tape: Bytes,
    /// What has to be kept of the input so that the segment can be recomputed, without what an
    /// earlier segment of the same layer keeps in any case, be it on its tape or as its input.
    #[serde(rename = "kept_input_bytes")]
    pub kept_input: Bytes,
    /// What its operations note in a forward so that its recompute costs less, and a tape holds too.
    #[serde(rename = "notes_bytes", default, skip_serializing_if = "is_nothing")]
    pub notes: Bytes,
    /// All that passes to the next segment: what a stage sends if it ends here.
    #[serde(rename = "boundary_bytes")]
    pub boundary: Bytes,
    /// The most that the forward or backward needs for a moment beside all of the above.
    #[serde(rename = "workspace_bytes", default)]
    pub workspace: Bytes,
    /// The collectives between this forward and the next segment's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_forward: Vec<Collective>,
    /// The collectives between this backward and that of the segment before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_backward: Vec<Collective>,
    /// What is there all the time.
    #[serde(default)]
    pub weights: WeightBytes,
}

/// What weights occupy, whatever is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightBytes {
    /// The parameters themselves.
    #[serde(rename = "parameter_bytes")]
    pub parameters: Bytes,
    /// Their gradients.
    #[serde(rename = "gradient_bytes")]
    pub gradients: Bytes,
    /// What the optimizer keeps for them.
    #[serde(rename = "optimizer_bytes")]
    pub optimizer: Bytes,
}

/// The segments of a layer; all layers of one kind cost the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerKind {
    /// What layers refer to.
    pub name: String,
    /// From the input of the layer to its output.
    pub segments: Vec<SegmentProfile>,
}

impl SegmentProfile {
    /// The whole backward.
    pub fn backward(&self) -> Nanos {
        self.backward_input
            .saturating_add(self.backward_weight.unwrap_or_default())
    }
}

impl WeightBytes {
    /// All three together.
    pub fn total(&self) -> Bytes {
        sum([self.parameters, self.gradients, self.optimizer])
    }

    /// The sum, part by part.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            parameters: sum([self.parameters, other.parameters]),
            gradients: sum([self.gradients, other.gradients]),
            optimizer: sum([self.optimizer, other.optimizer]),
        }
    }

    /// The difference, part by part; no part is less than nothing.
    pub fn minus(&self, other: &Self) -> Self {
        let part = |all: Bytes, less: Bytes| Bytes(all.0.saturating_sub(less.0));
        Self {
            parameters: part(self.parameters, other.parameters),
            gradients: part(self.gradients, other.gradients),
            optimizer: part(self.optimizer, other.optimizer),
        }
    }
}

impl LayerKind {
    /// The forward of all segments, without collectives.
    pub fn forward(&self) -> Nanos {
        self.segments.iter().map(|segment| segment.forward).sum()
    }

    /// The backward of all segments, without collectives.
    pub fn backward(&self) -> Nanos {
        self.segments.iter().map(SegmentProfile::backward).sum()
    }

    /// What a micro-batch keeps of a layer all of whose segments are retained.
    pub fn tape(&self) -> Bytes {
        sum(self.segments.iter().map(|segment| segment.tape))
    }

    /// What the layer's weights occupy.
    pub fn weights(&self) -> WeightBytes {
        let all = self.segments.iter().map(|segment| segment.weights);
        all.fold(WeightBytes::default(), |sum, one| sum.plus(&one))
    }
}

fn is_nothing(bytes: &Bytes) -> bool {
    *bytes == Bytes(0)
}

fn sum(parts: impl IntoIterator<Item = Bytes>) -> Bytes {
    let parts = parts.into_iter();
    Bytes(parts.fold(0, |sum, part| sum.saturating_add(part.0)))
}
