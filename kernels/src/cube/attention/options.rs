//! How to attend, and what a launch makes of it.

use cubecl::{prelude::*, std::tensor::TensorHandle};

use super::super::{
    CubeError,
    operand::address,
    philox::{MaskLaunch, Part, mask_argument, no_mask},
};
use super::{AttentionBlueprint, dropout::Dropout, operands::Strided, tile::Shape};
use crate::random::DropoutMask;

/// How to attend.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions {
    /// What scores are multiplied by; `1 / sqrt(head_dim)` if absent.
    pub scale: Option<f32>,
    /// The mask of dropout on the probabilities, `[batch, heads, seq, seq]`; none if absent. It may be
    /// of a slice that has a run of each batch's heads.
    pub dropout: Option<DropoutMask>,
    /// The tiles; [`AttentionBlueprint::for_device`] if absent. Results depend on them in their
    /// last bits, so forward and recomputation must use the same.
    pub blueprint: Option<AttentionBlueprint>,
}

impl AttentionOptions {
    /// The mask of a call whose operands were checked.
    pub(super) fn mask(&self, part: Part) -> MaskLaunch {
        match self.dropout {
            Some(mask) => mask_argument(mask, part),
            None => no_mask(),
        }
    }

    /// Rows of scores in a batch of the mask's tensor, and the first that these `heads` have.
    fn part(&self, [batch, heads, seq, _]: [usize; 4]) -> Result<Part, CubeError> {
        let own = heads * seq;
        let (whole, first) = match self.dropout.and_then(|mask| mask.slice()) {
            None => (own, 0),
            Some(slice) => {
                let rows = |elements: usize| elements.is_multiple_of(seq).then(|| elements / seq);
                let inside = slice.first.saturating_add(slice.length) <= slice.whole;
                match (rows(slice.whole), rows(slice.first)) {
                    (Some(whole), Some(first)) if inside && slice.length == own * seq => {
                        (whole, first)
                    }
                    _ => {
                        return Err(CubeError::Slice {
                            found: slice,
                            expected: "a run of each batch's heads",
                        });
                    }
                }
            }
        };
        let queries = batch.saturating_mul(whole);
        let (Ok(_), Ok(whole), Ok(first)) = (
            u32::try_from(queries),
            u32::try_from(whole),
            u32::try_from(first),
        ) else {
            return Err(CubeError::TooLarge {
                what: "number of queries",
                found: queries,
                limit: u32::MAX as usize,
            });
        };
        Ok(Part {
            whole,
            first,
            length: 0,
        })
    }
}

/// What the three kernels over tiles share.
pub(super) struct Launch {
    pub(super) shape: Shape,
    pub(super) dropout: Dropout,
    pub(super) scale: f32,
    pub(super) tiles: usize,
    pub(super) cubes: usize,
    pub(super) dim: CubeDim,
    pub(super) address: AddressType,
    /// Where the mask's rows lie.
    pub(super) part: Part,
}

impl Launch {
    pub(super) fn new(
        client: &Client,
        dimensions: [usize; 4],
        options: &AttentionOptions,
        operands: &[&TensorHandle],
    ) -> Result<Self, CubeError> {
        let [batch, heads, seq, head_dim] = dimensions;
        let blueprint = match options.blueprint {
            Some(blueprint) => blueprint,
            None => AttentionBlueprint::for_device(client, head_dim)?,
        };
        blueprint.check(client, head_dim)?;
        let scale = options
            .scale
            .unwrap_or_else(|| (head_dim as f32).sqrt().recip());
        if !scale.is_finite() {
            return Err(CubeError::Value {
                what: "scale",
                found: f64::from(scale),
                expected: "finite",
            });
        }
        let part = options.part(dimensions)?;
        let queries = batch * heads * seq;
        let extents = operands
            .iter()
            .map(|tensor| Strided::new(client, tensor).extent());
        let largest = extents.max().unwrap_or(0).max(queries * head_dim);
        let side = blueprint.side();
        let tiles = seq.div_ceil(blueprint.tile);
        Ok(Self {
            shape: Shape {
                tile: blueprint.tile,
                micro: blueprint.micro,
                side,
                head_dim,
                columns: head_dim.div_ceil(side),
            },
            dropout: Dropout::new(options.dropout.is_some(), blueprint.micro, seq),
            scale,
            tiles,
            cubes: batch * heads * tiles,
            dim: CubeDim::new_2d(side as u32, side as u32),
            address: address(client, largest)?,
            part,
        })
    }
}
