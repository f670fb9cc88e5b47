//! Dropout on a unit's part of a tile of probabilities.

use cubecl::prelude::*;

use super::super::philox::{Mask, pick};

/// Whether and how probabilities are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dropout {
    /// All are kept.
    Off,
    /// Four neighbouring keys, of a unit and of the counter, are the same four.
    Blocks,
    /// Each has a Philox evaluation of its own.
    Elements,
}

impl Dropout {
    pub(super) const fn new(on: bool, micro: usize, seq: usize) -> Self {
        match (on, micro, seq % 4) {
            (false, _, _) => Self::Off,
            (true, 4, 0) => Self::Blocks,
            (true, _, _) => Self::Elements,
        }
    }
}

/// Multiplies `scores` by the mask: `[query, key]` in rows, or the other way round if
/// `keys_in_rows`; the first of them are query `query` and key `key` of a head.
#[allow(clippy::too_many_arguments)]
#[cube]
pub(super) fn apply(
    scores: &mut Array<f32>,
    mask: &Mask,
    head: usize,
    heads: usize,
    query: usize,
    key: usize,
    seq: usize,
    #[comptime] micro: usize,
    #[comptime] keys_in_rows: bool,
    #[comptime] dropout: Dropout,
) {
    let width = seq as u32;
    // Rows of scores of a batch's other heads may lie between the batches.
    let start = (head / heads) as u32 * mask.whole + mask.first + ((head % heads) * seq) as u32;
    #[unroll]
    for q in 0..micro {
        let row = start + (query + q) as u32;
        let mut words = Vector::<u32, Const<4>>::new(0u32);
        if comptime!(dropout == Dropout::Blocks) {
            words = mask.words_at(row, width, key as u32);
        }
        #[unroll]
        for k in 0..micro {
            let word = if comptime!(dropout == Dropout::Blocks) {
                words.extract(k)
            } else {
                let column = key as u32 + k as u32;
                let own = mask.words_at(row, width, column);
                pick(own, (row * width + column) % 4u32)
            };
            let at = comptime!(if keys_in_rows {
                k * micro + q
            } else {
                q * micro + k
            });
            let scaled = scores[at] * mask.scale;
            scores[at] = select(mask.keeps(word), scaled, 0.0f32);
        }
    }
}
