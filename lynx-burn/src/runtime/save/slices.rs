//! Between what ranks hold in slices and what a save holds whole.
//!
//! Nothing is read from a device or a file before it is needed.

use burn::tensor::Shape;
use burn_store::bridge;
use burn_store::burn_pack::{Error, Tensor as Stored};

use crate::ids::RankId;
use crate::runtime::shard::{self, Sharding};

/// The shape of a whole, from that of a slice.
pub(super) fn whole_shape(slice: &Shape, sharding: Sharding, ranks: usize) -> Shape {
    scaled(slice, sharding, |size| size * ranks)
}

/// The shape with the dimension that is split changed, where there is one.
fn scaled(shape: &Shape, sharding: Sharding, change: impl FnOnce(usize) -> usize) -> Shape {
    let mut dims = shape.to_vec();
    if let Sharding::Split { dim, .. } = sharding
        && let Some(size) = dims.get_mut(dim)
    {
        *size = change(*size);
    }
    dims.into()
}

/// The whole of all ranks' slices, in order of rank, under the first one's name.
pub(super) fn united(mut slices: Vec<Stored>, sharding: Sharding) -> Stored {
    if sharding == Sharding::Whole || slices.len() == 1 {
        return slices.swap_remove(0);
    }
    let first = &slices[0];
    let (name, dtype) = (first.name.clone(), first.dtype);
    let shape = whole_shape(&first.shape, sharding, slices.len());
    bridge::deferred(name, dtype, shape, None, move || {
        let slices = slices.iter().map(bridge::to_data);
        let slices = slices.collect::<Result<_, _>>()?;
        shard::unite(slices, sharding)
            .ok_or_else(|| Error::ValidationError("the ranks' slices do not fit".to_owned()))
    })
}

/// A rank's slice of a whole. One that cannot be dealt is left as it is: its shape will tell.
pub(super) fn part(whole: Stored, sharding: Sharding, share: (RankId, usize)) -> Stored {
    if sharding == Sharding::Whole || sharding.check("", &whole.shape, share.1).is_err() {
        return whole;
    }
    let shape = scaled(&whole.shape, sharding, |size| size / share.1);
    let (name, dtype, id) = (whole.name.clone(), whole.dtype, whole.param_id);
    bridge::deferred(name, dtype, shape, id, move || {
        shard::part(bridge::to_data(&whole)?, sharding, share)
            .ok_or_else(|| Error::ValidationError("it cannot be dealt to ranks".to_owned()))
    })
}
