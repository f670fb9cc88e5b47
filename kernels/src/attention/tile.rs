//! Scores and weights of a tile of queries against a panel of keys.

use std::ops::Range;

use super::Attention;
use crate::matrix::{Matrix, MatrixMut, Place, product};
use crate::random::DropoutMask;
use crate::vector::{LANES, exp};

/// Queries of a tile.
pub(super) const TILE: usize = 64;
/// Keys of a panel. With a tile of scores this is 128 KiB, which a core's second cache holds twice.
pub(super) const PANEL: usize = 512;

/// One head of one sequence, to read.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    shape: Attention,
    /// `qkv` from this sequence's first row on.
    qkv: &'a [f32],
    head: usize,
    /// Place among all heads of all sequences.
    index: usize,
}

impl<'a> Head<'a> {
    /// Head number `index` of all sequences.
    pub(super) fn new(shape: Attention, qkv: &'a [f32], index: usize) -> Self {
        let (batch, head) = (index / shape.heads(), index % shape.heads());
        let row = 3 * shape.heads() * shape.d_head();
        Self {
            shape,
            qkv: &qkv[batch * shape.seq() * row..(batch + 1) * shape.seq() * row],
            head,
            index,
        }
    }

    /// Queries (0), keys (1) or values (2) at some positions. `[positions, d_head]`
    pub(super) fn part(&self, part: usize, positions: Range<usize>) -> Matrix<'a> {
        let (heads, width) = (self.shape.heads(), self.shape.d_head());
        let row = 3 * heads * width;
        let first = positions.start * row + (part * heads + self.head) * width;
        Matrix::new(&self.qkv[first..], positions.len(), width, row)
    }

    /// Writes the scaled scores of a tile against a panel.
    pub(super) fn scores(&self, tile: &Tile, panel: &Range<usize>, scores: &mut [f32]) {
        product(
            self.shape.scale(),
            self.part(0, tile.queries.clone()),
            self.part(1, panel.clone()).transposed(),
            Place::Set,
            MatrixMut {
                data: scores,
                rows: tile.queries.len(),
                columns: panel.len(),
                stride: tile.stride,
            },
        );
    }

    /// The element of the dropout mask that belongs to a query and key 0 of the whole matrix.
    pub(super) fn mask_row(&self, query: usize) -> u64 {
        (self.index as u64 * self.shape.seq() as u64 + query as u64) * self.shape.seq() as u64
    }
}

/// Some queries, and how their scores lie in a buffer.
pub(super) struct Tile {
    /// Positions of the queries.
    pub(super) queries: Range<usize>,
    /// Elements from one row of scores to the next.
    pub(super) stride: usize,
}

impl Tile {
    /// Elements from one row of a tile's scores to the next: rows are whole vectors, and a little
    /// longer, so that they do not fall on the same lines of the cache.
    pub(super) fn stride(seq: usize) -> usize {
        PANEL.min(seq.next_multiple_of(LANES)) + LANES
    }

    /// Elements of a buffer for a tile.
    pub(super) fn buffer(seq: usize) -> usize {
        TILE * Self::stride(seq)
    }

    /// All tiles of a sequence.
    pub(super) fn all(seq: usize) -> impl Iterator<Item = Self> {
        let stride = Self::stride(seq);
        (0..seq).step_by(TILE).map(move |first| Self {
            queries: first..(first + TILE).min(seq),
            stride,
        })
    }

    /// Panels of the keys that some query of this tile sees.
    pub(super) fn panels(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let end = self.queries.end;
        (0..end)
            .step_by(PANEL)
            .map(move |first| first..(first + PANEL).min(end))
    }

    /// Whether there is one panel, whose scores can be kept from one pass to the next.
    pub(super) fn has_one_panel(&self) -> bool {
        self.queries.end <= PANEL
    }

    /// Keys of `panel` that query number `row` of this tile sees.
    pub(super) fn seen(&self, row: usize, panel: &Range<usize>) -> usize {
        (self.queries.start + row + 1)
            .saturating_sub(panel.start)
            .min(panel.len())
    }
}

/// Sets what a row does not see to minus infinity, up to a whole vector; returns what then has to
/// be looked at.
#[inline(always)]
pub(super) fn hide_future(row: &mut [f32], seen: usize) -> &mut [f32] {
    let whole = seen.next_multiple_of(LANES);
    row[seen..whole].fill(f32::NEG_INFINITY);
    &mut row[..whole]
}

/// Makes scores of one query into weights: `exp(score - lse)`, times the mask, and zero for every
/// key up to `columns` that it does not see.
#[inline(always)]
pub(super) fn weigh(
    row: &mut [f32],
    seen: usize,
    columns: usize,
    lse: f32,
    mask: Option<(&DropoutMask, u64)>,
) {
    let whole = seen.next_multiple_of(LANES);
    for chunk in row[..whole].as_chunks_mut::<LANES>().0 {
        for score in chunk {
            *score = exp(*score - lse);
        }
    }
    if let Some((mask, first)) = mask {
        let mut kept = [0.0f32; PANEL];
        let kept = &mut kept[..seen];
        mask.write(first, kept);
        for (weight, kept) in row.iter_mut().zip(&*kept) {
            *weight *= kept;
        }
    }
    row[seen..columns.max(seen)].fill(0.0);
}
