//! Dropout that comes out the same when it is recomputed.

use burn::config::Config;
use burn::module::Module;
use burn::prelude::*;
use lynx_kernels::random::{DropoutError, KeepProbability, RowSlice};

use crate::runtime::chain::{Context, Mode};
use crate::runtime::ops;

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
        self.apply(input, context, None)
    }

    /// The same for a tensor of which every rank has a slice of equal size along `dim`: each drops
    /// what one rank with all of it would.
    ///
    /// # Shapes
    ///
    /// Input and output: `[...]`, any.
    ///
    /// # Panics
    ///
    /// If `dim` is not below `D`.
    pub fn forward_slice<const D: usize>(
        &self,
        input: Tensor<D>,
        dim: usize,
        context: &Context,
    ) -> Tensor<D> {
        let length: usize = input.dims()[dim..].iter().product();
        let slice = RowSlice {
            whole: length * context.ranks(),
            first: length * context.rank().0,
            length,
        };
        self.apply(input, context, (context.ranks() > 1).then_some(slice))
    }

    fn apply<const D: usize>(
        &self,
        input: Tensor<D>,
        context: &Context,
        slice: Option<RowSlice>,
    ) -> Tensor<D> {
        let key = context.next_stream();
        match KeepProbability::from_drop(self.prob) {
            Ok(keep) if context.mode() == Mode::Training && self.prob > 0.0 => {
                ops::dropout(input, key, keep, slice)
            }
            // The probability was checked when the module was made.
            _ => input,
        }
    }
}
