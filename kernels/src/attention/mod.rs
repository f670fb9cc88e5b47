//! Causal attention of all heads: `softmax(scale q k^T) v`, each query seeing the keys up to its
//! own position.
//!
//! | buffer | shape | kept by whom |
//! | --- | --- | --- |
//! | `qkv`, `dqkv` | `[batch, seq, 3, heads, d_head]`: queries, keys, values | the model |
//! | `out`, `dout` | `[batch, seq, heads, d_head]` | the model |
//! | `lse` | `[batch, heads, seq]` | forward, for recompute and backward |
//!
//! All `f32`. The layout is what one linear layer makes and the next one takes, so that nothing is
//! split, transposed or put together.
//!
//! Scores exist for a tile of queries and a panel of keys at a time, never as a whole: memory beside
//! the buffers is constant for each thread, but for two rows of `seq x d_head` in backward. Forward
//! finds the log-sum-exp of each query's scores first, and weights are then `exp(score - lse)`.
//! Recompute and backward do the second half alone, from the same scores: the same bits.
//!
//! Weights may be dropped at random; element `((b * heads + h) * seq + query) * seq + key` of the
//! mask belongs to a weight, which is its place in the whole matrix.

mod backward;
mod cpu;
mod dealt;
pub mod reference;
mod tile;

#[cfg(test)]
mod tests;

pub use backward::backward;
pub use cpu::{forward, recompute};

use crate::cost::Cost;
use crate::error::{KernelError, elements, positive};

const KERNEL: &str = "attention";

/// Sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    batch: usize,
    seq: usize,
    heads: usize,
    d_head: usize,
    scale: f32,
}

impl Attention {
    /// `heads` heads of width `d_head` over `batch` sequences of `seq` positions; scores are
    /// multiplied by one over the root of `d_head`.
    ///
    /// # Errors
    ///
    /// If `seq`, `heads` or `d_head` is zero, or the sizes overflow.
    pub fn new(batch: usize, seq: usize, heads: usize, d_head: usize) -> Result<Self, KernelError> {
        positive(KERNEL, "the sequence", seq)?;
        positive(KERNEL, "the number of heads", heads)?;
        positive(KERNEL, "the width of a head", d_head)?;
        elements(KERNEL, [batch, seq, heads, d_head])?;
        elements(KERNEL, [3, batch * seq * heads, d_head])?;
        Ok(Self {
            batch,
            seq,
            heads,
            d_head,
            scale: 1.0 / (d_head as f32).sqrt(),
        })
    }

    /// The same with another factor for scores.
    ///
    /// # Errors
    ///
    /// If `scale` is not finite.
    pub fn with_scale(self, scale: f32) -> Result<Self, KernelError> {
        if scale.is_finite() {
            Ok(Self { scale, ..self })
        } else {
            Err(KernelError::Scale(scale))
        }
    }

    /// Sequences.
    #[must_use]
    pub const fn batch(self) -> usize {
        self.batch
    }

    /// Positions of each.
    #[must_use]
    pub const fn seq(self) -> usize {
        self.seq
    }

    /// Heads.
    #[must_use]
    pub const fn heads(self) -> usize {
        self.heads
    }

    /// Width of a head.
    #[must_use]
    pub const fn d_head(self) -> usize {
        self.d_head
    }

    /// What scores are multiplied by.
    #[must_use]
    pub const fn scale(self) -> f32 {
        self.scale
    }

    /// Elements of `out`; `qkv` has three times as many.
    #[must_use]
    pub const fn elements(self) -> usize {
        self.batch * self.seq * self.heads * self.d_head
    }

    /// Elements of `lse`.
    #[must_use]
    pub const fn queries(self) -> usize {
        self.batch * self.heads * self.seq
    }

    /// Pairs of a query and a key that it sees.
    #[must_use]
    pub const fn pairs(self) -> u64 {
        (self.batch * self.heads) as u64 * (self.seq as u64 * (self.seq as u64 + 1) / 2)
    }

    /// What forward does: two products and two exponentials a pair.
    #[must_use]
    pub const fn forward_cost(self) -> Cost {
        let n = self.elements();
        let a_pair = 4 * self.d_head as u64 + 2 * Cost::EXP + 3;
        Cost::of(3 * n, n + self.queries(), a_pair * self.pairs())
    }

    /// What recompute does: two products and one exponential a pair.
    #[must_use]
    pub const fn recompute_cost(self) -> Cost {
        let n = self.elements();
        let a_pair = 4 * self.d_head as u64 + Cost::EXP + 1;
        Cost::of(3 * n + self.queries(), n, a_pair * self.pairs())
    }

    /// What backward does: five products and one exponential a pair.
    #[must_use]
    pub const fn backward_cost(self) -> Cost {
        let n = self.elements();
        let a_pair = 10 * self.d_head as u64 + Cost::EXP + 5;
        Cost::of(5 * n + self.queries(), 3 * n, a_pair * self.pairs())
    }
}
