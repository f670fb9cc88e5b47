//! The core of causal self-attention, which keeps no matrix of its weights.

use burn::config::Config;
use burn::module::Module;
use burn::prelude::*;
use lynx_kernels::random::{DropoutError, KeepProbability};

use super::dropout::drop_at;
use crate::runtime::chain::Context;
use crate::runtime::ops;

/// Configuration of [`CausalSelfAttention`].
#[derive(Config, Debug)]
pub struct CausalSelfAttentionConfig {
    /// Attention heads of all ranks; they share the width.
    pub heads: usize,
    /// Probability of dropping a weight, in `[0, 1)`.
    #[config(default = 0.0)]
    pub dropout: f64,
}

/// What several heads make of queries, keys and values: `softmax(q k^T / sqrt(d_head)) v`, each
/// position seeing those up to its own.
///
/// It has no parameters: the layer that makes `qkv` and the one that mixes the heads are the
/// model's. Backward keeps input, output and one number for each query. The weights, which grow with
/// the square of the sequence, exist a tile at a time on the CPU, in single precision, and on devices
/// of wgpu and CUDA, in single and half precision, for heads that fit into their shared memory;
/// elsewhere they are a whole matrix while a pass runs. The mask of the dropout is a function of the
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
    /// contiguous in them, to `[batch, seq, d_model]`. Of several ranks, each has an equal share of
    /// the heads, and the width is theirs.
    ///
    /// # Panics
    ///
    /// If the heads do not divide the width evenly, or the sequence is empty.
    pub fn forward(&self, qkv: Tensor<3>, context: &Context) -> Tensor<3> {
        let [_, seq, width] = qkv.dims();
        // Each rank has an equal share of the heads.
        let heads = self.heads / context.ranks();
        assert!(
            heads > 0 && width.is_multiple_of(3 * heads),
            "{heads} heads do not divide queries, keys and values of width {width} evenly",
        );
        let drop = drop_at(self.dropout, context, Some(heads * seq * seq));
        ops::causal_attention(qkv, heads, drop)
    }
}
