//! Slices and wholes on the host, as bytes.

use std::ops::Range;

use burn::tensor::TensorData;

use super::{Sharding, pieces};
use crate::ids::RankId;

/// Puts slices together, one for each rank in order of rank. What every rank holds whole is the
/// first rank's.
pub(crate) fn unite(slices: Vec<TensorData>, sharding: Sharding) -> Option<TensorData> {
    let ranks = slices.len();
    let first = slices.first()?;
    let Sharding::Split { dim, .. } = sharding else {
        return slices.into_iter().next();
    };
    let mut dims: Vec<usize> = first.shape().to_vec();
    let dtype = first.dtype();
    *dims.get_mut(dim)? *= ranks;
    let mut whole = vec![0_u8; dims.iter().product::<usize>() * dtype.size()];
    for (rank, slice) in slices.iter().enumerate() {
        let bytes = slice.as_bytes();
        let mut from = 0;
        for to in places(&dims, dtype.size(), sharding, (RankId(rank), ranks)) {
            let length = to.len();
            whole
                .get_mut(to)?
                .copy_from_slice(bytes.get(from..from + length)?);
            from += length;
        }
    }
    Some(TensorData::from_bytes_vec(whole, dims, dtype))
}

/// A rank's slice of a whole that can be dealt.
pub(crate) fn part(
    whole: TensorData,
    sharding: Sharding,
    share: (RankId, usize),
) -> Option<TensorData> {
    let Sharding::Split { dim, .. } = sharding else {
        return Some(whole);
    };
    let mut dims: Vec<usize> = whole.shape().to_vec();
    let (dtype, bytes) = (whole.dtype(), whole.as_bytes());
    let mut slice = Vec::with_capacity(bytes.len() / share.1);
    for from in places(&dims, dtype.size(), sharding, share) {
        slice.extend_from_slice(bytes.get(from)?);
    }
    *dims.get_mut(dim)? /= share.1;
    Some(TensorData::from_bytes_vec(slice, dims, dtype))
}

/// Where a rank's bytes lie in the whole, in order.
fn places(
    dims: &[usize],
    element: usize,
    sharding: Sharding,
    share: (RankId, usize),
) -> Vec<Range<usize>> {
    let Sharding::Split { dim, blocks, .. } = sharding else {
        return Vec::new();
    };
    // Along the dimension lie `row` bytes for each index, and all that again `outer` times.
    let outer: usize = dims[..dim].iter().product();
    let row = dims[dim + 1..].iter().product::<usize>() * element;
    let size = dims[dim];
    (0..outer)
        .flat_map(|index| {
            let own = pieces::of_rank(size, blocks, share);
            own.map(move |range| {
                let begin = (index * size + range.start) * row;
                begin..begin + range.len() * row
            })
        })
        .collect()
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::prelude::*;

    use super::super::slice;
    use super::*;

    #[test]
    fn slices_make_the_whole_again_and_the_whole_slices_whatever_is_cut() {
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
            for rank in 0..ranks {
                let share = (RankId(rank), ranks);
                let expected = slice(tensor.clone(), sharding, share).into_data();
                let found = part(whole.clone(), sharding, share).expect("it divides");
                assert_eq!(found.as_bytes(), expected.as_bytes(), "{sharding:?}");
                assert_eq!(found.shape(), expected.shape());
            }
        }
    }
}
