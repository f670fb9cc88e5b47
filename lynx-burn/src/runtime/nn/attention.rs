//! The core of causal self-attention, without the matrix of its weights.

use burn::config::Config;
use burn::module::Module;
use burn::prelude::*;
use lynx_kernels::random::{DropoutError, KeepProbability};

use crate::runtime::chain::{Context, Mode};
use crate::runtime::ops::{self, Drop};

/// Configuration of [`CausalSelfAttention`].
#[derive(Config, Debug)]
pub struct CausalSelfAttentionConfig {
    /// Attention heads; they share the width.
    pub heads: usize,
    /// Probability of dropping a weight, in `[0, 1)`.
    #[config(default = 0.0)]
    pub dropout: f64,
}

/// What several heads make of queries, keys and values: `softmax(q k^T / sqrt(d_head)) v`, each
/// position seeing those up to its own.
///
/// It has no parameters: the layer that makes `qkv` and the one that mixes the heads are the
/// model's. Backward keeps input, output and one number for each query; the weights, which grow with
/// the square of the sequence, exist a tile at a time. The mask of the dropout is a function of the
/// place in `context`, as [`Dropout`](super::Dropout)'s, and the same as if that module had been
/// applied to the weights.
#[derive(Module, Debug)]
pub struct CausalSelfAttention {
    heads: usize,
    dropout: f64,
}

impl CausalSelfAttentionConfig {
    /// The module.
    ///
    /// # Errors
    ///
    /// If `dropout` is not in `[0, 1)`.
    pub fn init(&self) -> Result<CausalSelfAttention, DropoutError> {
        KeepProbability::from_drop(self.dropout)?;
        Ok(CausalSelfAttention {
            heads: self.heads,
            dropout: self.dropout,
        })
    }
}

impl CausalSelfAttention {
    /// Mixes the values. Takes a site of the context.
    ///
    /// # Shapes
    ///
    /// `[batch, seq, 3 * d_model]`, queries, keys and values side by side and each head's part
    /// contiguous in them, to `[batch, seq, d_model]`.
    ///
    /// # Panics
    ///
    /// If the heads do not divide the width evenly, or the sequence is empty.
    pub fn forward(&self, qkv: Tensor<3>, context: &Context) -> Tensor<3> {
        let [_, _, width] = qkv.dims();
        assert!(
            self.heads > 0 && width.is_multiple_of(3 * self.heads),
            "{} heads do not divide queries, keys and values of width {width} evenly",
            self.heads
        );
        let key = context.next_stream();
        let drop = match KeepProbability::from_drop(self.dropout) {
            Ok(keep) if context.mode() == Mode::Training && self.dropout > 0.0 => {
                Some(Drop { key, keep })
            }
            // The probability was checked when the module was made.
            _ => None,
        };
        ops::causal_attention(qkv, self.heads, drop)
    }
}
