//! Products of tiles that lie in shared memory.
//!
//! A unit owns `micro` by `micro` scores, next to each other: rows `micro * y ..`, columns
//! `micro * x ..`. Of a result with `head_dim` columns it owns the same rows and every `side`-th
//! column from `x` on, so that neighbouring units read neighbouring words.

use cubecl::prelude::*;

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) tile: usize,
    pub(super) micro: usize,
    pub(super) side: usize,
    pub(super) head_dim: usize,
    /// Columns of a result that a unit owns, the last of which may not exist.
    pub(super) columns: usize,
}

impl Shape {
    /// Words of a matrix of `tile` padded rows.
    pub(super) const fn matrix(&self) -> usize {
        self.tile * self.pitch()
    }

    /// Words from row to row.
    pub(super) const fn pitch(&self) -> usize {
        self.head_dim + 1
    }

    /// Words of a padded tile of scores.
    pub(super) const fn scores(&self) -> usize {
        self.tile * (self.tile + 1)
    }
}

/// Copies rows `first ..` of a head that begins at `start` into `target`; rows from `seq` on are
/// zero. The cube does it together, and nobody is waited for.
#[cube]
pub(super) fn load<E: Float, N: Size>(
    source: &[Vector<E, N>],
    target: &mut Shared<[f32]>,
    start: usize,
    position: usize,
    first: usize,
    seq: usize,
    #[comptime] shape: Shape,
) {
    let size = N::value();
    let row_vectors = comptime!(shape.head_dim / size);
    let total = comptime!(shape.tile * row_vectors);
    let units = comptime!(shape.side * shape.side);
    let mut index = UNIT_POS as usize;
    while index < total {
        let row = index / row_vectors;
        let column = index % row_vectors;
        let mut vector = Vector::<f32, N>::new(0.0f32);
        if first + row < seq {
            vector = Vector::cast_from(source[start + (first + row) * position + column]);
        }
        let base = row * comptime!(shape.pitch()) + column * size;
        #[unroll]
        for lane in 0..size {
            target[base + lane] = vector.extract(lane);
        }
        index += units;
    }
}

/// The unit's scores: products of its rows of `rows` with its rows of `columns`.
#[cube]
pub(super) fn products(
    rows: &Shared<[f32]>,
    columns: &Shared<[f32]>,
    #[comptime] shape: Shape,
) -> Array<f32> {
    let micro = comptime!(shape.micro);
    let pitch = comptime!(shape.pitch());
    let top = UNIT_POS_Y as usize * micro;
    let left = UNIT_POS_X as usize * micro;
    let mut result = Array::<f32>::new(comptime!(micro * micro));
    #[unroll]
    for i in 0..comptime!(micro * micro) {
        result[i] = 0.0f32;
    }
    let mut a = Array::<f32>::new(micro);
    let mut b = Array::<f32>::new(micro);
    for k in 0..comptime!(shape.head_dim) {
        #[unroll]
        for i in 0..micro {
            a[i] = rows[(top + i) * pitch + k];
            b[i] = columns[(left + i) * pitch + k];
        }
        #[unroll]
        for i in 0..micro {
            #[unroll]
            for j in 0..micro {
                let at = comptime!(i * micro + j);
                result[at] = fma(a[i], b[j], result[at]);
            }
        }
    }
    result
}

/// Stores the unit's scores into the tile.
#[cube]
pub(super) fn store(scores: &Array<f32>, tile: &mut Shared<[f32]>, #[comptime] shape: Shape) {
    let micro = comptime!(shape.micro);
    let top = UNIT_POS_Y as usize * micro;
    let left = UNIT_POS_X as usize * micro;
    #[unroll]
    for i in 0..micro {
        #[unroll]
        for j in 0..micro {
            let at = comptime!(i * micro + j);
            tile[(top + i) * comptime!(shape.tile + 1) + left + j] = scores[at];
        }
    }
}

/// A result of zeros.
#[cube]
pub(super) fn zeros(#[comptime] shape: Shape) -> Array<f32> {
    let mut result = Array::<f32>::new(comptime!(shape.micro * shape.columns));
    #[unroll]
    for i in 0..comptime!(shape.micro * shape.columns) {
        result[i] = 0.0f32;
    }
    result
}

/// Adds the product of the tile with `matrix` to the unit's part of a result.
#[cube]
pub(super) fn accumulate(
    tile: &Shared<[f32]>,
    matrix: &Shared<[f32]>,
    result: &mut Array<f32>,
    #[comptime] shape: Shape,
) {
    let micro = comptime!(shape.micro);
    let columns = comptime!(shape.columns);
    let top = UNIT_POS_Y as usize * micro;
    let mut b = Array::<f32>::new(columns);
    for k in 0..comptime!(shape.tile) {
        #[unroll]
        for j in 0..columns {
            let column = UNIT_POS_X as usize + comptime!(j * shape.side);
            let mut word = k * comptime!(shape.pitch()) + column;
            if comptime!(columns * shape.side > shape.head_dim) {
                // A column that does not exist reads something, and is not written.
                word = min(word, comptime!(shape.matrix() - 1));
            }
            b[j] = matrix[word];
        }
        #[unroll]
        for i in 0..micro {
            let a = tile[(top + i) * comptime!(shape.tile + 1) + k];
            #[unroll]
            for j in 0..columns {
                let at = comptime!(i * columns + j);
                result[at] = fma(a, b[j], result[at]);
            }
        }
    }
}

/// Writes the unit's part of a result, row `i` times `factors[i]`, to rows `first ..` of a head.
#[cube]
pub(super) fn write<E: Float>(
    result: &Array<f32>,
    factors: &Array<f32>,
    target: &mut [E],
    start: usize,
    position: usize,
    first: usize,
    seq: usize,
    #[comptime] shape: Shape,
) {
    let micro = comptime!(shape.micro);
    #[unroll]
    for i in 0..micro {
        let row = first + UNIT_POS_Y as usize * micro + i;
        if row < seq {
            #[unroll]
            for j in 0..comptime!(shape.columns) {
                let column = UNIT_POS_X as usize + comptime!(j * shape.side);
                if column < comptime!(shape.head_dim) {
                    let value = result[comptime!(i * shape.columns + j)] * factors[i];
                    target[start + row * position + column] = E::cast_from(value);
                }
            }
        }
    }
}
