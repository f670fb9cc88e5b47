//! Profiles of GPTs from formulas.
//!
//! A layer is cut into five segments, named as `gpt-example` names them:
//!
//! ```text
//! qkv         norm, product with [h, 3h]
//! attention   softmax(q k) v, dropout inside
//! projection  product with [h, h]
//!     all-reduce
//! mlp-in      dropout, residual sum, norm, product with [h, 4h]
//! mlp-out     GELU, product with [4h, h]
//!     all-reduce, then dropout and residual sum
//! ```
//!
//! The cut is Megatron-LM's layer: what passes from layer to layer is the finished sum, `s b h`
//! numbers. (`gpt-example` passes the sum and the branch that is to be added, twice as much,
//! because a segment there ends with its collective. Here the dropout and sum behind the second
//! collective are counted with `mlp-out`.)
//!
//! *Bytes* follow Korthikanti et al., "Reducing activation recomputation in large transformer
//! models" (arXiv 2205.05198), section 4, tensor by tensor; see the `layer` module. *Times* are
//! sums over kernels, each of which takes as long as the slower of its arithmetic and its memory
//! traffic. A product of an `m x k` by a `k x n` matrix is `2 m n k` operations, and its backward
//! is two such products. Element-wise work is fused as far as Megatron-LM fuses it, and free apart
//! from its memory traffic. Left out: the update of the optimizer, all-reduces of gradients among
//! data-parallel replicas and within the loss, and whatever a framework adds.

mod check;
mod ends;
mod layer;
mod size;
mod work;

use serde::{Deserialize, Serialize};

pub use check::SetupError;
pub use layer::SEGMENTS;
pub use size::{GptSize, UnknownSize};

use super::model::{LayerRun, ModelProfile};
use super::segment::{LayerKind, WeightBytes};
use crate::plan::cluster::{Collective, CollectiveKind, Device, Precision};
use crate::units::Bytes;

/// How attention goes about the `s x s` scores of every head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// They are computed, masked and stored, as in arXiv 2205.05198.
    #[default]
    Stored,
    /// They are never stored: FlashAttention (arXiv 2205.14135, 2307.08691). Its backward
    /// computes them again and keeps one `f32` for each of their rows instead.
    Flash,
}

/// What weights cost beside themselves, in bytes for each parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatePerParameter {
    /// The gradient.
    pub gradient: u64,
    /// What the optimizer keeps.
    pub optimizer: u64,
}

/// A GPT, how it is trained, and on how many ranks: all that its costs depend on, apart from the
/// device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpt {
    /// The model.
    pub size: GptSize,
    /// Tokens of one sample, `s`.
    pub sequence: u64,
    /// Samples of one micro-batch, `b`.
    pub micro_batch: u64,
    /// Ranks that share every layer, `t`. Divides the heads.
    pub tensor_parallel: u64,
    /// Whether the ranks also share what lies outside the products, along the sequence.
    pub sequence_parallel: bool,
    /// Of parameters, activations and products.
    pub precision: Precision,
    /// How attention is computed.
    pub attention: Attention,
    /// Whether dropout stores its masks, one byte an element, as PyTorch's does. Our runtime's
    /// dropout is counter-based (Philox) and regenerates them: false.
    pub stored_masks: bool,
    /// Bytes of gradients and of the optimizer's state.
    pub state: StatePerParameter,
}

impl StatePerParameter {
    /// Adam as in ZeRO (arXiv 1910.02054, section 3.1): in 16 bits, a gradient of 2 bytes and 12
    /// for the `f32` copy of the parameter, its momentum and its variance; in `f32`, 4 and 8.
    /// With the parameter itself both make 16.
    pub fn adam(precision: Precision) -> Self {
        let gradient = precision.bytes();
        match precision {
            Precision::Bf16 | Precision::F16 => Self {
                gradient,
                optimizer: 12,
            },
            Precision::F32 => Self {
                gradient,
                optimizer: 8,
            },
        }
    }
}

impl Gpt {
    /// A model in `bf16` on one rank, one sample of its whole context a micro-batch, with everything
    /// stored, as in arXiv 2205.05198. Change the fields to what you have.
    pub fn new(size: GptSize) -> Self {
        Self {
            sequence: size.context,
            size,
            micro_batch: 1,
            tensor_parallel: 1,
            sequence_parallel: false,
            precision: Precision::Bf16,
            attention: Attention::Stored,
            stored_masks: true,
            state: StatePerParameter::adam(Precision::Bf16),
        }
    }

    /// The costs of every segment on this device.
    ///
    /// The device must be valid, as those of a preset or a file are.
    pub fn profile(&self, device: &Device) -> Result<ModelProfile, SetupError> {
        self.validate()?;
        let kind = LayerKind {
            name: "gpt".to_owned(),
            segments: layer::segments(self, device),
        };
        let profile = ModelProfile {
            name: self.size.name.clone(),
            tensor_parallel: usize::try_from(self.tensor_parallel).unwrap_or(usize::MAX),
            tokens: Some(self.sequence * self.micro_batch),
            embedding: vec![ends::embedding(self, device)],
            layers: vec![LayerRun {
                kind: kind.name.clone(),
                count: usize::try_from(self.size.layers).unwrap_or(usize::MAX),
            }],
            kinds: vec![kind],
            head: vec![ends::head(self, device)],
            tied: ends::tied(self),
        };
        profile.validate().map_err(SetupError::Costs)?;
        Ok(profile)
    }

    /// Numbers of the residual stream of a micro-batch, `s b h`.
    fn stream(&self) -> u128 {
        self.tokens() * u128::from(self.size.hidden)
    }

    /// Of those, what one rank holds between the products.
    fn outside(&self) -> u128 {
        if self.sequence_parallel {
            self.inside()
        } else {
            self.stream()
        }
    }

    /// Numbers of `s b h` that are split among the ranks: within the products.
    fn inside(&self) -> u128 {
        self.stream() / u128::from(self.tensor_parallel)
    }

    /// Scores of one rank's heads, `a s s b / t`.
    fn scores(&self) -> u128 {
        self.rows() * u128::from(self.sequence)
    }

    /// Rows of those scores, `a s b / t`.
    fn rows(&self) -> u128 {
        u128::from(self.size.heads / self.tensor_parallel) * self.tokens()
    }

    /// Tokens of a micro-batch, `s b`.
    fn tokens(&self) -> u128 {
        u128::from(self.sequence) * u128::from(self.micro_batch)
    }

    /// Bytes of a number.
    fn element(&self) -> u128 {
        u128::from(self.precision.bytes())
    }

    /// Bytes of a stored mask's element.
    fn mask(&self) -> u128 {
        u128::from(self.stored_masks)
    }

    /// What joins the ranks' halves of a layer, in either direction: an all-reduce or, with
    /// sequence parallelism, the two collectives that it consists of.
    ///
    /// With sequence parallelism the ranks also gather the inputs of `qkv` and `mlp-in` once more
    /// in backward, beside the products there (arXiv 2205.05198, section 4.2.2): not counted.
    fn collectives(&self) -> Vec<Collective> {
        let size = bytes(self.element() * self.stream());
        let kinds: &[CollectiveKind] = match (self.tensor_parallel, self.sequence_parallel) {
            (1, _) => &[],
            (_, false) => &[CollectiveKind::AllReduce],
            (_, true) => &[CollectiveKind::ReduceScatter, CollectiveKind::AllGather],
        };
        let of_kind = |&kind| Collective { kind, size };
        kinds.iter().map(of_kind).collect()
    }

    /// What this many parameters of one rank occupy.
    fn weights(&self, parameters: u128) -> WeightBytes {
        WeightBytes {
            parameters: bytes(parameters * self.element()),
            gradients: bytes(parameters * u128::from(self.state.gradient)),
            optimizer: bytes(parameters * u128::from(self.state.optimizer)),
        }
    }
}

/// More than fits is more than [`ModelProfile::validate`] accepts.
fn bytes(count: u128) -> Bytes {
    Bytes(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod bytes_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod time_tests;
