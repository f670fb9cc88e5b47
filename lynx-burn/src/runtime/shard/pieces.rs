//! Where a rank's elements lie along a dimension that is cut into blocks, and those among ranks.

use std::ops::Range;

use crate::ids::RankId;

/// The rank's elements of the whole, block after block.
pub(super) fn of_rank(
    size: usize,
    blocks: usize,
    (rank, ranks): (RankId, usize),
) -> impl Iterator<Item = Range<usize>> {
    let block = size / blocks;
    let part = block / ranks;
    (0..blocks).map(move |index| {
        let begin = index * block + rank.0 * part;
        begin..begin + part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_dealt_to_all_ranks_in_order() {
        let of = |rank| of_rank(12, 3, (RankId(rank), 2)).collect::<Vec<_>>();
        assert_eq!(of(0), [0..2, 4..6, 8..10]);
        assert_eq!(of(1), [2..4, 6..8, 10..12]);
    }
}
