//! Which slice of a parameter each tensor-parallel rank holds, and how slices come from the whole
//! and make it again.
//!
//! A slice is not always one piece: the joint matrix of queries, keys and values is three matrices
//! side by side, of each of which every rank has its heads. So a dimension is cut into blocks
//! first, and every block among the ranks. How a segment computes with slices is the model's to
//! know; here are only their shapes.

mod host;
mod pieces;

use burn::module::{ModuleMapper, Param};
use burn::prelude::*;

use super::chain::Chain;
use super::parameters;
use crate::ids::RankId;

pub(crate) use host::{part, unite};

/// What a rank holds of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharding {
    /// All of it, like every other rank.
    Whole,
    /// A slice along one dimension.
    Split {
        /// Which dimension.
        dim: usize,
        /// Into how many equal blocks the dimension is cut before each is cut among the ranks: 3
        /// for queries, keys and values side by side, otherwise 1.
        blocks: usize,
        /// What must stay together, in elements: the width of an attention head, otherwise 1.
        grain: usize,
    },
}

/// A parameter that cannot be dealt to so many ranks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardingError {
    /// It lacks the dimension.
    #[error(
        "{path:?} has shape {dims:?}: there is no dimension {dim} to split among {ranks} ranks"
    )]
    NoDimension {
        /// The parameter.
        path: String,
        /// Its shape.
        dims: Vec<usize>,
        /// The dimension.
        dim: usize,
        /// The ranks.
        ranks: usize,
    },
    /// Its size is not a multiple.
    #[error(
        "dimension {dim} of {path:?} has {size} elements, which {blocks} blocks of {grain} each \
         for {ranks} ranks do not divide"
    )]
    Uneven {
        /// The parameter.
        path: String,
        /// The dimension.
        dim: usize,
        /// Its size.
        size: usize,
        /// The blocks.
        blocks: usize,
        /// What must stay together.
        grain: usize,
        /// The ranks.
        ranks: usize,
    },
    /// Nothing is shared.
    #[error("{ranks} ranks cannot share this chain: it holds every parameter whole")]
    NothingSplit {
        /// The ranks.
        ranks: usize,
    },
}

impl Sharding {
    /// Columns of a weight `[input, output]`: each rank makes a part of the output.
    pub const COLUMNS: Self = Self::split(1, 1);
    /// Rows of a weight `[input, output]`: each rank reads a part of the input, and the output is
    /// a sum.
    pub const ROWS: Self = Self::split(0, 1);

    /// One block, of elements in groups of `grain`.
    #[must_use]
    pub const fn split(dim: usize, grain: usize) -> Self {
        Self::Split {
            dim,
            blocks: 1,
            grain,
        }
    }

    /// Refuses a shape that cannot be dealt.
    pub(crate) fn check(
        self,
        path: &str,
        dims: &[usize],
        ranks: usize,
    ) -> Result<(), ShardingError> {
        let Self::Split { dim, blocks, grain } = self else {
            return Ok(());
        };
        let Some(&size) = dims.get(dim) else {
            return Err(ShardingError::NoDimension {
                path: path.to_owned(),
                dims: dims.to_vec(),
                dim,
                ranks,
            });
        };
        let unit = blocks.checked_mul(grain).and_then(|n| n.checked_mul(ranks));
        if unit.is_some_and(|unit| unit > 0 && size.is_multiple_of(unit)) {
            return Ok(());
        }
        Err(ShardingError::Uneven {
            path: path.to_owned(),
            dim,
            size,
            blocks,
            grain,
            ranks,
        })
    }
}

/// What one of so many ranks holds of a parameter.
pub(crate) fn of<C: Chain>(module: &C, path: &str, ranks: usize) -> Sharding {
    match ranks {
        1 => Sharding::Whole,
        _ => module.sharding(path),
    }
}

/// Refuses parameters that cannot be dealt to so many ranks; says whether any is.
pub(crate) fn check<C: Chain>(module: &C, ranks: usize) -> Result<bool, ShardingError> {
    let mut split = false;
    for parameter in parameters::list(module) {
        let sharding = module.sharding(&parameter.path);
        sharding.check(&parameter.path, &parameter.dims, ranks)?;
        split |= sharding != Sharding::Whole;
    }
    Ok(split)
}

/// The module with a rank's slices in place of its parameters, which [`check`] has accepted.
pub(crate) fn cut<C: Chain>(module: C, rank: RankId, ranks: usize) -> C {
    struct Cut<'a, C> {
        path: Vec<String>,
        chain: &'a C,
        share: (RankId, usize),
    }

    impl<C: Chain> ModuleMapper for Cut<'_, C> {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }

        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            match self.chain.sharding(&self.path.join(".")) {
                Sharding::Whole => param,
                split => param.map(|whole| {
                    let learns = whole.is_require_grad();
                    match whole.is_autodiff() {
                        true => slice(whole.inner(), split, self.share)
                            .autodiff()
                            .set_require_grad(learns),
                        false => slice(whole, split, self.share),
                    }
                }),
            }
        }
    }

    let chain = module.clone();
    module.map(&mut Cut {
        path: Vec::new(),
        chain: &chain,
        share: (rank, ranks),
    })
}

/// A rank's slice of a whole parameter, in memory of its own: a view would keep the whole there, and
/// what multiplies with a view may copy it every time.
fn slice<const D: usize>(
    whole: Tensor<D>,
    sharding: Sharding,
    share: (RankId, usize),
) -> Tensor<D> {
    match sharding {
        Sharding::Whole => whole,
        Sharding::Split { dim, blocks, .. } => {
            let slices = pieces::of_rank(whole.dims()[dim], blocks, share);
            let slices = slices.map(|range| whole.clone().slice_dim(dim, range));
            let slice = Tensor::cat(slices.collect(), dim);
            let place = (&slice.device(), slice.dtype());
            Tensor::from_data(slice.into_data(), place)
        }
    }
}
