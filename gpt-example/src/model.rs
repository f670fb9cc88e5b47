//! GPT-2: its parameters and what its parts compute.
//!
//! Pre-norm layers, learned positions, GELU, a final norm, and a head that reuses the token
//! embedding. What is not a matrix product runs as `lynx_burn::nn`'s fused operations, or, for
//! comparison, as Burn's own. Two things differ from a model written for one device:
//!
//! - every module is an `Option`, because a stage holds only those that its segments use;
//! - initial values are a function of the seed and the parameter's place, and are made when first
//!   read, so that a stage makes its own and all of them agree.
//!
//! Where the model may be cut is told in [`chain`](crate::chain).

use burn::module::Param;
use burn::nn::Embedding;
use burn::nn::loss::CrossEntropyLossConfig as BurnCrossEntropyLossConfig;
use burn::prelude::*;
use burn::tensor::{activation, module};
use lynx_burn::Context;
use lynx_burn::nn::{
    CausalSelfAttention, CausalSelfAttentionConfig, CrossEntropyLossConfig, Dropout, DropoutConfig,
    Gelu, LayerNorm, LayerNormConfig, Linear, linear,
};

use crate::config::{Activation, ConfigError, GptConfig, Modules};
use crate::init::Initial;
use crate::vocabulary;

/// A GPT-2, or the part of it that some of its segments use.
#[derive(Module, Debug)]
pub struct Gpt {
    /// Also the head's weight. `[vocabulary, d_model]`
    pub(crate) token_embedding: Option<Embedding>,
    /// `[context, d_model]`
    pub(crate) position_embedding: Option<Embedding>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) final_norm: Option<LayerNorm>,
    /// One module for all places: what is dropped depends on the place, not on the module.
    dropout: Dropout,
    attention: CausalSelfAttention,
    gelu: Gelu,
    /// Width of an attention head.
    pub(crate) d_head: usize,
    /// Rows of the embedding, the last ones, that are no tokens.
    padding: usize,
    /// Whether what is not a product runs as Burn's own operations.
    plain: bool,
}

/// The modules of one layer, each if its segment is held.
#[derive(Module, Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Option<LayerNorm>,
    /// `d_model -> 3 * d_model`
    pub(crate) qkv: Option<Linear>,
    /// `d_model -> d_model`
    pub(crate) projection: Option<Linear>,
    pub(crate) mlp_norm: Option<LayerNorm>,
    /// `d_model -> 4 * d_model`
    pub(crate) expand: Option<Linear>,
    /// `4 * d_model -> d_model`
    pub(crate) contract: Option<Linear>,
}

impl Gpt {
    /// The whole model with GPT-2's initial values, none of them made yet.
    ///
    /// # Errors
    ///
    /// If `config` is not valid.
    pub fn new(config: &GptConfig, seed: u64, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        let dropout = DropoutConfig::new(config.dropout)
            .init()
            .map_err(|_| ConfigError::Dropout(config.dropout))?;
        let attention = CausalSelfAttentionConfig::new(config.heads)
            .with_dropout(config.dropout)
            .init()
            .map_err(|_| ConfigError::Dropout(config.dropout))?;
        let d = config.d_model;
        let norm = LayerNormConfig::new(d).with_epsilon(config.norm_epsilon);
        let norm = || Some(norm.init(device));
        let layers = (0..config.layers)
            .map(|index| {
                let mut initial = Initial::new(seed, index + 1, device);
                // Each layer adds two branches to the residual stream: scaled down by the root of
                // their number, the stream's variance does not grow with depth.
                let residual = 0.02 / (2.0 * config.layers as f64).sqrt();
                Layer {
                    attention_norm: norm(),
                    qkv: Some(initial.linear(d, 3 * d, 0.02)),
                    projection: Some(initial.linear(d, d, residual)),
                    mlp_norm: norm(),
                    expand: Some(initial.linear(d, 4 * d, 0.02)),
                    contract: Some(initial.linear(4 * d, d, residual)),
                }
            })
            .collect();
        let mut initial = Initial::new(seed, 0, device);
        Ok(Self {
            token_embedding: Some(initial.embedding(config.vocabulary, d)),
            position_embedding: Some(initial.embedding(config.context, d)),
            layers,
            final_norm: norm(),
            dropout,
            attention,
            gelu: match config.activation {
                Activation::Gelu => Gelu::new(),
                Activation::GeluTanh => Gelu::new_approximate(),
            },
            d_head: d / config.heads,
            padding: config.padding,
            plain: false,
        })
    }

    /// The same parameters, computed by other modules.
    #[must_use]
    pub fn with_modules(self, modules: Modules) -> Self {
        Self {
            plain: modules == Modules::Burn,
            ..self
        }
    }

    /// Tokens and their positions as vectors; of several ranks, those of the rank's own tokens, the
    /// positions by the first.
    ///
    /// # Shapes
    ///
    /// `[batch, seq]` to `[batch, seq, d_model]`
    pub(crate) fn embed(&self, tokens: Tensor<2, Int>, context: &Context) -> Tensor<3> {
        let [_, seq] = tokens.dims();
        let positions = Tensor::<1, Int>::arange(0..seq as i64, &tokens.device()).unsqueeze();
        let tokens = vocabulary::embed(held(&self.token_embedding), tokens, context);
        if !context.is_first_rank() {
            return tokens;
        }
        tokens + held(&self.position_embedding).forward(positions)
    }

    /// Adds what a branch computed to the residual stream, or begins it.
    ///
    /// # Shapes
    ///
    /// All `[batch, seq, d_model]`
    pub(crate) fn join(
        &self,
        residual: Option<Tensor<3>>,
        branch: Tensor<3>,
        context: &Context,
    ) -> Tensor<3> {
        match residual {
            Some(residual) if self.plain => residual + self.dropout.forward(branch, context),
            Some(residual) => self.dropout.forward_add(branch, residual, context),
            None => self.dropout.forward(branch, context),
        }
    }

    /// Causal attention of every head that is held here.
    ///
    /// # Shapes
    ///
    /// `[batch, seq, 3 * width]` to `[batch, seq, width]`, where the width is that of all heads
    /// here: `d_model`, or a rank's share of it.
    pub(crate) fn attention(&self, qkv: Tensor<3>, context: &Context) -> Tensor<3> {
        match self.plain {
            true => self.plain_attention(qkv, context),
            false => self.attention.forward(qkv, context),
        }
    }

    /// The same of Burn's operations, with the whole matrix of weights.
    ///
    /// The mask is made here: it costs less than keeping it.
    ///
    /// # Shapes
    ///
    /// `[batch, seq, 3 * width]` to `[batch, seq, width]`
    fn plain_attention(&self, qkv: Tensor<3>, context: &Context) -> Tensor<3> {
        let [batch, seq, width] = qkv.dims();
        let width = width / 3;
        let d_head = self.d_head;
        let heads = width / d_head;
        let split = |part: Tensor<3>| part.reshape([batch, seq, heads, d_head]).swap_dims(1, 2);
        let [query, key, value] =
            [0, 1, 2].map(|part| split(qkv.clone().slice_dim(2, part * width..(part + 1) * width)));
        // Scaled before the product, where there are fewer elements.
        let query = query.mul_scalar(1.0 / (d_head as f64).sqrt());
        let scores = query.matmul(key.swap_dims(2, 3));
        let future = Tensor::<2, Bool>::tril_mask([seq, seq], 0, &scores.device());
        let future = future.unsqueeze::<4>().expand([batch, heads, seq, seq]);
        let scores = scores.mask_fill(future, f32::NEG_INFINITY);
        let weights = activation::softmax(scores, 3);
        // The heads of all ranks lie side by side.
        let weights = self.dropout.forward_slice(weights, 1, context);
        weights
            .matmul(value)
            .swap_dims(1, 2)
            .reshape([batch, seq, width])
    }

    /// Scores of every token that is held here as the next one.
    ///
    /// # Shapes
    ///
    /// `[batch, seq, d_model]` to `[batch, seq, vocabulary]`, or a rank's share of it.
    pub(crate) fn head(&self, residual: Tensor<3>, context: &Context) -> Tensor<3> {
        let [batch, seq, d_model] = residual.dims();
        let weight = held(&self.token_embedding).weight.val();
        let [vocabulary, _] = weight.dims();
        let rows = self
            .norm(&self.final_norm, residual)
            .reshape([batch * seq, d_model]);
        let scores = self
            .product(rows, weight.transpose(), None)
            .reshape([batch, seq, vocabulary]);
        vocabulary::without_padding(scores, self.padding, context)
    }

    /// The mean loss of scores against the tokens that came.
    ///
    /// # Shapes
    ///
    /// `[rows, vocabulary]` and `[rows]` to `[1]`
    pub(crate) fn cross_entropy(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        match self.plain {
            true => BurnCrossEntropyLossConfig::new()
                .init(&logits.device())
                .forward(logits, targets),
            false => CrossEntropyLossConfig::new()
                .init()
                .forward(logits, targets),
        }
    }

    /// `[batch, seq, d_model]`, twice
    fn norm(&self, norm: &Option<LayerNorm>, input: Tensor<3>) -> Tensor<3> {
        let norm = held(norm);
        if !self.plain {
            return norm.forward(input);
        }
        let beta = norm.beta.as_ref().map(Param::val);
        module::layer_norm(input, norm.gamma.val(), beta, norm.epsilon())
    }

    /// `[..., input]`, `[input, output]` and `[output]` to `[..., output]`
    fn product<const D: usize>(
        &self,
        input: Tensor<D>,
        weight: Tensor<2>,
        bias: Option<Tensor<1>>,
    ) -> Tensor<D> {
        match self.plain {
            true => module::linear(input, weight, bias),
            false => linear(input, weight, bias),
        }
    }

    /// `[batch, seq, input]` to `[batch, seq, output]`
    fn columns(&self, linear: &Linear, input: Tensor<3>) -> Tensor<3> {
        let bias = linear.bias.as_ref().map(Param::val);
        self.product(input, linear.weight.val(), bias)
    }

    /// A product with some of a weight's rows: a part of a sum, to which one rank adds the bias.
    /// `[batch, seq, input]` to `[batch, seq, output]`
    fn rows(&self, linear: &Linear, input: Tensor<3>, context: &Context) -> Tensor<3> {
        match context.is_first_rank() {
            true => self.columns(linear, input),
            false => self.product(input, linear.weight.val(), None),
        }
    }

    /// `[batch, seq, d_model]` to `[batch, seq, 3 * width]`
    pub(crate) fn qkv(&self, layer: &Layer, residual: Tensor<3>) -> Tensor<3> {
        self.columns(held(&layer.qkv), self.norm(&layer.attention_norm, residual))
    }

    /// `[batch, seq, width]` to `[batch, seq, d_model]`
    pub(crate) fn projection(
        &self,
        layer: &Layer,
        mixed: Tensor<3>,
        context: &Context,
    ) -> Tensor<3> {
        self.rows(held(&layer.projection), mixed, context)
    }

    /// `[batch, seq, d_model]` to `[batch, seq, 4 * d_model]`
    pub(crate) fn expand(&self, layer: &Layer, residual: Tensor<3>) -> Tensor<3> {
        self.columns(held(&layer.expand), self.norm(&layer.mlp_norm, residual))
    }

    /// `[batch, seq, 4 * d_model]`, or a rank's share of it, to `[batch, seq, d_model]`
    pub(crate) fn contract(
        &self,
        layer: &Layer,
        hidden: Tensor<3>,
        context: &Context,
    ) -> Tensor<3> {
        let hidden = match self.plain {
            true if self.gelu.approximate => activation::gelu_approximate(hidden),
            true => activation::gelu(hidden),
            false => self.gelu.forward(hidden),
        };
        self.rows(held(&layer.contract), hidden, context)
    }
}

/// The module of a segment that runs here.
///
/// # Panics
///
/// If the segment is another stage's. The runtime asks a stage for its own segments only.
fn held<M>(module: &Option<M>) -> &M {
    module
        .as_ref()
        .expect("a segment runs where its parameters were kept")
}
