//! Where the model may be cut: GPT-2 as a [`Chain`].
//!
//! A layer is five segments. The cuts lie where a tape is large and its recomputation cheap, or
//! the other way round, so that a policy can tell them apart: `attention` keeps probabilities
//! that grow with the square of the context and costs little; `mlp-out` keeps the GELU's input
//! and output, the widest tensors of the layer.
//!
//! ```text
//! embed
//! qkv         join the branch before, norm, qkv     residual | qkv
//! attention   softmax(q k) v                        residual | mixed values
//! projection  mix the heads                         residual | branch
//! mlp-in      join that branch, norm, expand        residual | hidden
//! mlp-out     GELU, contract                        residual | branch
//! head        join the last branch, norm, scores
//! ```
//!
//! The residual stream enters each segment once and is used there at most twice, which is what
//! makes the cut model's gradients those of the uncut one to the last bit.

use std::ops::Range;

use burn::prelude::*;
use lynx_burn::plan::layout::Segment;
use lynx_burn::{Boundary, Chain, Context, TensorMap};

use crate::model::Gpt;

/// What passes between the segments of a [`Gpt`].
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one value a segment, moved a few times"
)]
pub enum Activations {
    /// The model's input. `[batch, seq]`
    Tokens(Tensor<2, Int>),
    /// Between segments.
    Stream {
        /// The residual stream. `[batch, seq, d_model]`
        residual: Tensor<3>,
        /// What was computed beside it and is not joined yet. `[batch, seq, width]`, where the
        /// width is `d_model`, or 3 times that after `qkv`, 4 times after `mlp-in`.
        branch: Option<Tensor<3>>,
    },
    /// The model's output: scores of every token as the next one. `[batch, seq, vocabulary]`
    Logits(Tensor<3>),
}

impl Boundary for Activations {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        match self {
            Self::Tokens(tokens) => Self::Tokens(tokens.map_tensors(map)),
            Self::Stream { residual, branch } => Self::Stream {
                residual: residual.map_tensors(map),
                branch: branch.map_tensors(map),
            },
            Self::Logits(logits) => Self::Logits(logits.map_tensors(map)),
        }
    }
}

/// The segments of a layer, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Qkv,
    Attention,
    Projection,
    MlpIn,
    MlpOut,
}

const PARTS: [(Part, &str); 5] = [
    (Part::Qkv, "qkv"),
    (Part::Attention, "attention"),
    (Part::Projection, "projection"),
    (Part::MlpIn, "mlp-in"),
    (Part::MlpOut, "mlp-out"),
];

/// What a segment of the chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Embed,
    Layer(usize, Part),
    Head,
}

impl Place {
    /// Of segment `index` in a chain of so many layers.
    fn of(index: usize, layers: usize) -> Self {
        match index.checked_sub(1) {
            None => Self::Embed,
            Some(inner) if inner < layers * PARTS.len() => {
                Self::Layer(inner / PARTS.len(), PARTS[inner % PARTS.len()].0)
            }
            Some(_) => Self::Head,
        }
    }
}

impl Gpt {
    /// The segments of a model of so many layers.
    #[must_use]
    pub fn segments_of(layers: usize) -> Vec<Segment> {
        let inner =
            (0..layers).flat_map(|layer| PARTS.map(|(_, name)| Segment::in_layer(layer, name)));
        std::iter::once(Segment::outside("embed"))
            .chain(inner)
            .chain([Segment::outside("head")])
            .collect()
    }
}

impl Chain for Gpt {
    type Boundary = Activations;
    /// The tokens that come next. `[batch, seq]`
    type Target = Tensor<2, Int>;

    fn segments(&self) -> Vec<Segment> {
        Self::segments_of(self.layers.len())
    }

    fn keep(mut self, range: Range<usize>) -> Self {
        let layers = self.layers.len();
        let places: Vec<Place> = range.map(|index| Place::of(index, layers)).collect();
        let uses = |place| places.contains(&place);
        // The head is the token embedding once more.
        self.token_embedding = self
            .token_embedding
            .filter(|_| uses(Place::Embed) || uses(Place::Head));
        self.position_embedding = self.position_embedding.filter(|_| uses(Place::Embed));
        self.final_norm = self.final_norm.filter(|_| uses(Place::Head));
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let uses = |part| uses(Place::Layer(index, part));
            layer.attention_norm.take_if(|_| !uses(Part::Qkv));
            layer.qkv.take_if(|_| !uses(Part::Qkv));
            layer.projection.take_if(|_| !uses(Part::Projection));
            layer.mlp_norm.take_if(|_| !uses(Part::MlpIn));
            layer.expand.take_if(|_| !uses(Part::MlpIn));
            layer.contract.take_if(|_| !uses(Part::MlpOut));
        }
        self
    }

    fn forward_segment(&self, index: usize, input: Activations, context: &Context) -> Activations {
        let place = Place::of(index, self.layers.len());
        match (place, input) {
            (Place::Embed, Activations::Tokens(tokens)) => Activations::Stream {
                residual: self.embed(tokens, context),
                branch: None,
            },
            (Place::Layer(layer, part), Activations::Stream { residual, branch }) => {
                self.forward_part(layer, part, residual, branch, context)
            }
            (Place::Head, Activations::Stream { residual, branch }) => {
                Activations::Logits(self.head(self.join(residual, branch, context)))
            }
            (place, other) => unreachable!("{place:?} does not follow {other:?}"),
        }
    }

    fn loss(&self, output: Activations, target: Tensor<2, Int>) -> Tensor<1> {
        let Activations::Logits(logits) = output else {
            unreachable!("only the head is followed by the loss, not {output:?}");
        };
        let [batch, seq, vocabulary] = logits.dims();
        self.cross_entropy(
            logits.reshape([batch * seq, vocabulary]),
            target.reshape([batch * seq]),
        )
    }
}

impl Gpt {
    /// Runs one segment of a layer.
    fn forward_part(
        &self,
        layer: usize,
        part: Part,
        residual: Tensor<3>,
        branch: Option<Tensor<3>>,
        context: &Context,
    ) -> Activations {
        let layer = &self.layers[layer];
        let (residual, branch) = match (part, branch) {
            (Part::Qkv, branch) => {
                let residual = self.join(residual, branch, context);
                (residual.clone(), self.qkv(layer, residual))
            }
            (Part::Attention, Some(qkv)) => (residual, self.attention(qkv, context)),
            (Part::Projection, Some(mixed)) => (residual, self.projection(layer, mixed)),
            (Part::MlpIn, branch) => {
                let residual = self.join(residual, branch, context);
                (residual.clone(), self.expand(layer, residual))
            }
            (Part::MlpOut, Some(hidden)) => (residual, self.contract(layer, hidden)),
            (part, None) => unreachable!("{part:?} follows a segment with a branch"),
        };
        Activations::Stream {
            residual,
            branch: Some(branch),
        }
    }
}

#[cfg(test)]
mod tests;
