//! Dropout that comes out the same when it is recomputed.

use burn::config::Config;
use burn::module::Module;
use burn::prelude::*;
use lynx_kernels::random::{DropoutError, KeepProbability};

use crate::runtime::chain::{Context, Mode};
use crate::runtime::ops::{self, Drop};

/// Configuration of [`Dropout`].
#[derive(Config, Debug)]
pub struct DropoutConfig {
    /// Probability of dropping an element, in `[0, 1)`.
    pub prob: f64,
}

/// Drops elements at random during training and scales the others by `1 / (1 - prob)`.
///
/// The mask is a function of seed, step, micro-batch, segment, place in the segment and element:
/// the same in forward, recomputation and backward, whatever thread runs them, and never stored.
/// Burn's own dropout draws from a generator that moves on, so it would draw another mask.
#[derive(Module, Debug)]
pub struct Dropout {
    prob: f64,
}

impl DropoutConfig {
    /// The module.
    ///
    /// # Errors
    ///
    /// If `prob` is not in `[0, 1)`.
    pub fn init(&self) -> Result<Dropout, DropoutError> {
        KeepProbability::from_drop(self.prob)?;
        Ok(Dropout { prob: self.prob })
    }
}

impl Dropout {
    /// Applies the mask of this place in `context`; in an evaluation, returns `input`.
    ///
    /// Takes a site of the context in either case.
    ///
    /// # Shapes
    ///
    /// Input and output: `[...]`, any.
    pub fn forward<const D: usize>(&self, input: Tensor<D>, context: &Context) -> Tensor<D> {
        match self.drop(context) {
            Some(drop) => ops::dropout_add(input, None, None, drop),
            None => input,
        }
    }

    /// `residual + dropout(input)`, in one pass.
    ///
    /// The same bits as [`forward`](Self::forward) and an addition. Takes a site of the context.
    ///
    /// # Shapes
    ///
    /// All `[...]`, the same.
    ///
    /// # Panics
    ///
    /// If the two shapes differ.
    pub fn forward_add<const D: usize>(
        &self,
        input: Tensor<D>,
        residual: Tensor<D>,
        context: &Context,
    ) -> Tensor<D> {
        let (found, expected) = (residual.dims(), input.dims());
        assert_eq!(found, expected, "dropout: a residual of another shape");
        match self.drop(context) {
            Some(drop) => ops::dropout_add(input, None, Some(residual), drop),
            None => residual + input,
        }
    }

    /// The mask of the next place, if anything is dropped.
    fn drop(&self, context: &Context) -> Option<Drop> {
        let key = context.next_stream();
        match KeepProbability::from_drop(self.prob) {
            Ok(keep) if context.mode() == Mode::Training && self.prob > 0.0 => {
                Some(Drop { key, keep })
            }
            // The probability was checked when the module was made.
            _ => None,
        }
    }
}
