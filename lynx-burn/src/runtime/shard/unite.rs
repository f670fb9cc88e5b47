//! The whole of what ranks hold in slices, on the host.

use burn::tensor::TensorData;

use super::{Sharding, pieces};
use crate::ids::RankId;

/// Puts slices together, one for each rank in order of rank. What every rank holds whole is the
/// first rank's.
pub(crate) fn unite(slices: Vec<TensorData>, sharding: Sharding) -> Option<TensorData> {
    let ranks = slices.len();
    let first = slices.first()?;
    let Sharding::Split { dim, blocks, .. } = sharding else {
        return slices.into_iter().next();
    };
    let mut dims: Vec<usize> = first.shape().to_vec();
    let dtype = first.dtype();
    let part = *dims.get(dim)?;
    dims[dim] = part * ranks;
    // Along the dimension lie `row` bytes for each index, and all that again `outer` times.
    let outer: usize = dims[..dim].iter().product();
    let row = dims[dim + 1..].iter().product::<usize>() * dtype.size();
    let size = dims[dim];
    let mut whole = vec![0_u8; outer * size * row];
    for (rank, slice) in slices.iter().enumerate() {
        let bytes = slice.as_bytes();
        let mut from = 0;
        for index in 0..outer {
            for range in pieces::of_rank(size, blocks, (RankId(rank), ranks)) {
                let to = (index * size + range.start) * row;
                let length = range.len() * row;
                whole
                    .get_mut(to..to + length)?
                    .copy_from_slice(bytes.get(from..from + length)?);
                from += length;
            }
        }
    }
    Some(TensorData::from_bytes_vec(whole, dims, dtype))
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::prelude::*;

    use super::super::slice;
    use super::*;

    #[test]
    fn slices_make_the_whole_again_whatever_is_cut() {
        let values: Vec<f32> = (0..4 * 12 * 6).map(|value| value as f32).collect();
        let whole = TensorData::new(values, [4, 12, 6]);
        for (dim, blocks, ranks) in [(0, 1, 2), (0, 2, 2), (1, 3, 4), (1, 1, 3), (2, 3, 2)] {
            let sharding = Sharding::Split {
                dim,
                blocks,
                grain: 1,
            };
            let tensor = Tensor::<3>::from_data(whole.clone(), &Device::flex());
            let slices = (0..ranks)
                .map(|rank| slice(tensor.clone(), sharding, (RankId(rank), ranks)).into_data());
            let slices: Vec<_> = slices.collect();
            assert_eq!(
                slices[0].num_elements() * ranks,
                whole.num_elements(),
                "{sharding:?}"
            );
            let united = unite(slices, sharding).expect("slices of one size");
            assert_eq!(united.as_bytes(), whole.as_bytes(), "{sharding:?}");
            assert_eq!(united.shape(), whole.shape());
        }
    }
}
