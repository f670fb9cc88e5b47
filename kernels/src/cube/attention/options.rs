//! How to attend, and what a launch makes of it.

use cubecl::{prelude::*, std::tensor::TensorHandle};

use super::super::{
    CubeError,
    operand::address,
    philox::{MaskLaunch, mask_argument, no_mask},
};
use super::{AttentionBlueprint, dropout::Dropout, operands::Strided, tile::Shape};
use crate::random::{KeepProbability, StreamKey};

/// How to attend.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions {
    /// What scores are multiplied by; `1 / sqrt(head_dim)` if absent.
    pub scale: Option<f32>,
    /// The stream and probability of dropout on the probabilities; none if absent.
    pub dropout: Option<(StreamKey, KeepProbability)>,
    /// The tiles; [`AttentionBlueprint::for_device`] if absent. Results depend on them in their
    /// last bits, so forward and recomputation must use the same.
    pub blueprint: Option<AttentionBlueprint>,
}

impl AttentionOptions {
    pub(super) fn mask(&self) -> MaskLaunch {
        match self.dropout {
            Some((key, keep)) => mask_argument(key, keep),
            None => no_mask(),
        }
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
}

impl Launch {
    pub(super) fn new(
        client: &Client,
        [batch, heads, seq, head_dim]: [usize; 4],
        options: &AttentionOptions,
        operands: &[&TensorHandle],
    ) -> Result<Self, CubeError> {
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
        let queries = batch * heads * seq;
        if u32::try_from(queries).is_err() {
            return Err(CubeError::TooLarge {
                what: "number of queries",
                found: queries,
                limit: u32::MAX as usize,
            });
        }
        let extents = operands.iter().map(|tensor| Strided(tensor).extent());
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
        })
    }
}
