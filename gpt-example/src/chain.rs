//! Where the model may be cut: GPT-2 as a [`Chain`].
//!
//! A layer is five segments. The cuts lie where a tape is large and its recomputation cheap, or
//! the other way round, so that a policy can tell them apart: `attention` keeps probabilities
//! that grow with the square of the context and costs little; `mlp-out` keeps the GELU's input
//! and output, the widest tensors of the layer.
//!
//! ```text
//! embed       look up                                          | branch, summed
//! qkv         join the branch before, norm, qkv     residual | qkv
//! attention   softmax(q k) v                        residual | mixed values
//! projection  mix the heads                         residual | branch, summed
//! mlp-in      join that branch, norm, expand        residual | hidden
//! mlp-out     GELU, contract                        residual | branch, summed
//! head        join the last branch, norm, scores    scores   | normalisers, summed
//! ```
//!
//! Ranks share heads, the wide layer of the MLP and the vocabulary, as in Megatron-LM ("Efficient
//! Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021). What is said
//! to be summed is then a part of a sum over the ranks.
//!
//! The residual stream enters each segment once and is used there at most twice, which is what
//! makes the cut model's gradients those of the uncut one to the last bit.

use std::ops::Range;

use burn::prelude::*;
use lynx_burn::plan::layout::Segment;
use lynx_burn::{Boundary, Chain, Context, Sharding, Summed, TensorMap};

use crate::model::Gpt;
use crate::vocabulary;

/// What passes between the segments of a [`Gpt`].
#[derive(Clone, Debug)]
pub enum Activations {
    /// The model's input. `[batch, seq]`
    Tokens(Tensor<2, Int>),
    /// Between segments.
    Stream {
        /// The residual stream, from the first layer on. `[batch, seq, d_model]`
        residual: Option<Tensor<3>>,
        /// What was computed beside it and is not joined yet.
        branch: Branch,
    },
    /// The model's output: scores of every token as the next one. `[batch, seq, vocabulary]`
    Logits(Tensor<3>),
    /// A rank's scores of its tokens, with what all ranks' are normalised by.
    Scores {
        /// `[batch, seq, vocabulary / ranks]`
        scores: Tensor<3>,
        /// `[batch, seq, ranks]`
        normalisers: Summed<3>,
    },
}

/// What is computed beside the residual stream.
#[derive(Clone, Debug)]
pub enum Branch {
    /// Within a layer's half; of several ranks, each has its own. `[batch, seq, width]`, where the
    /// width is 3 times `d_model` after `qkv`, 4 times after `mlp-in`, or a rank's share of that.
    Inside(Tensor<3>),
    /// At its end: what is to be joined, of several ranks the sum of theirs. `[batch, seq, d_model]`
    Whole(Summed<3>),
}

impl Boundary for Branch {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        match self {
            Self::Inside(tensor) => Self::Inside(tensor.map_tensors(map)),
            Self::Whole(sum) => Self::Whole(sum.map_tensors(map)),
        }
    }
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
            Self::Scores {
                scores,
                normalisers,
            } => Self::Scores {
                scores: scores.map_tensors(map),
                normalisers: normalisers.map_tensors(map),
            },
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
        let inner = (0..layers).flat_map(|layer| {
            PARTS.map(|(part, name)| match part {
                Part::Projection | Part::MlpOut => Segment::in_layer(layer, name).summed(),
                Part::Qkv | Part::Attention | Part::MlpIn => Segment::in_layer(layer, name),
            })
        });
        std::iter::once(Segment::outside("embed").summed())
            .chain(inner)
            .chain([Segment::outside("head").summed()])
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
                residual: None,
                branch: Branch::Whole(Summed(self.embed(tokens, context))),
            },
            (Place::Layer(layer, part), Activations::Stream { residual, branch }) => {
                self.forward_part((layer, part), residual, branch, context)
            }
            (
                Place::Head,
                Activations::Stream {
                    residual,
                    branch: Branch::Whole(Summed(branch)),
                },
            ) => {
                let scores = self.head(self.join(residual, branch, context), context);
                if context.ranks() == 1 {
                    return Activations::Logits(scores);
                }
                let normalisers = Summed(vocabulary::normaliser(scores.clone(), context));
                Activations::Scores {
                    scores,
                    normalisers,
                }
            }
            (place, other) => unreachable!("{place:?} does not follow {other:?}"),
        }
    }

    fn loss(&self, output: Activations, target: Tensor<2, Int>, context: &Context) -> Tensor<1> {
        match output {
            Activations::Logits(logits) => {
                let [batch, seq, vocabulary] = logits.dims();
                self.cross_entropy(
                    logits.reshape([batch * seq, vocabulary]),
                    target.reshape([batch * seq]),
                )
            }
            Activations::Scores {
                scores,
                normalisers: Summed(normalisers),
            } => vocabulary::loss(scores, normalisers, target, context),
            other => unreachable!("only the head is followed by the loss, not {other:?}"),
        }
    }

    fn sharding(&self, path: &str) -> Sharding {
        let (module, parameter) = path.rsplit_once('.').unwrap_or((path, ""));
        let module = module.rsplit('.').next().unwrap_or(module);
        let dim = usize::from(parameter == "weight");
        match (module, parameter) {
            // Queries, keys and values side by side, head by head.
            ("qkv", _) => Sharding::Split {
                dim,
                blocks: 3,
                grain: self.d_head,
            },
            ("expand", _) => Sharding::split(dim, 1),
            ("projection", "weight") => Sharding::split(0, self.d_head),
            ("contract", "weight") | ("token_embedding", _) => Sharding::ROWS,
            _ => Sharding::Whole,
        }
    }

    fn join_outputs(&self, ranks: Vec<Activations>) -> Option<Activations> {
        let scores = ranks.iter().map(|output| match output {
            Activations::Scores { scores, .. } => Some(scores.clone()),
            _ => None,
        });
        match scores.collect::<Option<Vec<_>>>() {
            Some(scores) if !scores.is_empty() => {
                let device = scores[0].device();
                let here = scores.into_iter().map(|scores| scores.to_device(&device));
                Some(Activations::Logits(Tensor::cat(here.collect(), 2)))
            }
            _ => ranks.into_iter().next(),
        }
    }
}

impl Gpt {
    /// Runs one segment of a layer.
    fn forward_part(
        &self,
        (layer, part): (usize, Part),
        residual: Option<Tensor<3>>,
        branch: Branch,
        context: &Context,
    ) -> Activations {
        let layer = &self.layers[layer];
        let whole = |branch| Branch::Whole(Summed(branch));
        let (residual, branch) = match (part, branch) {
            (Part::Qkv, Branch::Whole(Summed(branch))) => {
                let residual = self.join(residual, branch, context);
                (
                    Some(residual.clone()),
                    Branch::Inside(self.qkv(layer, residual)),
                )
            }
            (Part::Attention, Branch::Inside(qkv)) => {
                (residual, Branch::Inside(self.attention(qkv, context)))
            }
            (Part::Projection, Branch::Inside(mixed)) => {
                (residual, whole(self.projection(layer, mixed, context)))
            }
            (Part::MlpIn, Branch::Whole(Summed(branch))) => {
                let residual = self.join(residual, branch, context);
                (
                    Some(residual.clone()),
                    Branch::Inside(self.expand(layer, residual)),
                )
            }
            (Part::MlpOut, Branch::Inside(hidden)) => {
                (residual, whole(self.contract(layer, hidden, context)))
            }
            (part, branch) => unreachable!("{part:?} does not follow {branch:?}"),
        };
        Activations::Stream { residual, branch }
    }
}

#[cfg(test)]
mod tests;
