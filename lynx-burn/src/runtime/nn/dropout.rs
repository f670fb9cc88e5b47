//! Dropout that comes out the same when it is recomputed.

use burn::config::Config;
use burn::module::Module;
use burn::prelude::*;
use lynx_kernels::random::{DropoutError, KeepProbability, RowSlice};

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
        self.apply(input, drop_at(self.prob, context, None))
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
        let length = input.dims()[dim..].iter().product();
        self.apply(input, drop_at(self.prob, context, Some(length)))
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
        match drop_at(self.prob, context, None) {
            Some(drop) => ops::dropout_add(input, None, Some(residual), drop),
            None => residual + input,
        }
    }

    fn apply<const D: usize>(&self, input: Tensor<D>, drop: Option<Drop>) -> Tensor<D> {
        match drop {
            Some(drop) => ops::dropout_add(input, None, None, drop),
            None => input,
        }
    }
}

/// The mask of the next place in `context`, if anything is dropped there. `shared` is how many
/// elements of each row of a tensor that the ranks share a rank has.
pub(super) fn drop_at(prob: f64, context: &Context, shared: Option<usize>) -> Option<Drop> {
    let key = context.next_stream();
    let slice = shared.map(|length| RowSlice {
        whole: length * context.ranks(),
        first: length * context.rank().0,
        length,
    });
    match KeepProbability::from_drop(prob) {
        Ok(keep) if context.mode() == Mode::Training && prob > 0.0 => Some(Drop {
            key,
            keep,
            slice: slice.filter(|_| context.ranks() > 1),
        }),
        // The probability was checked when the module was made.
        _ => None,
    }
}
