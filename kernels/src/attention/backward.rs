//! Backward on the CPU.

use std::ops::Range;

use rayon::prelude::*;

use super::dealt::{by_head, copy_rows};
use super::tile::{Head, PANEL, TILE, Tile, hide_future};
use super::{Attention, KERNEL};
use crate::error::{KernelError, lengths};
use crate::matrix::{Matrix, MatrixMut, Place, product};
use crate::random::DropoutMask;
use crate::vector::{LANES, exp, sum_pairs, vectorised};

/// Writes `dqkv`.
///
/// With `w` a query's weights, `m` the mask and `p = dout v^T`: the gradient of the values is
/// `(w m)^T dout`, that of the scores `w (m p - d)`, where `d` is the sum of `dout * out` over the
/// head's width and so needs no pass over the weights.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn backward(
    shape: Attention,
    qkv: &[f32],
    mask: Option<DropoutMask>,
    out: &[f32],
    lse: &[f32],
    dout: &[f32],
    dqkv: &mut [f32],
) -> Result<(), KernelError> {
    let n = shape.elements();
    lengths(
        KERNEL,
        [
            ("qkv", qkv.len(), 3 * n),
            ("out", out.len(), n),
            ("lse", lse.len(), shape.queries()),
            ("dout", dout.len(), n),
            ("dqkv", dqkv.len(), 3 * n),
        ],
    )?;
    let (batch, seq, heads, width) = (shape.batch(), shape.seq(), shape.heads(), shape.d_head());
    // Queries, keys and values of a head are three pieces of a row.
    let mut pieces = by_head(dqkv, (batch, seq, 3 * heads, width)).into_iter();
    let mut tasks: Vec<[Vec<&mut [f32]>; 3]> = Vec::with_capacity(batch * heads);
    for _ in 0..batch {
        let mut part = || pieces.by_ref().take(heads).collect::<Vec<_>>();
        let (queries, keys, values) = (part(), part(), part());
        for ((q, k), v) in queries.into_iter().zip(keys).zip(values) {
            tasks.push([q, k, v]);
        }
    }
    tasks.into_par_iter().enumerate().for_each_init(
        || Scratch::new(shape),
        |scratch, (index, [mut dq, mut dk, mut dv])| {
            let task = Task {
                shape,
                head: Head::new(shape, qkv, index),
                index,
                mask,
                lse: &lse[index * seq..(index + 1) * seq],
                out,
                dout,
            };
            scratch.dk.fill(0.0);
            scratch.dv.fill(0.0);
            for tile in Tile::all(seq) {
                task.tile(&tile, scratch);
                copy_rows(&scratch.dq, &mut dq[tile.queries.clone()]);
            }
            copy_rows(&scratch.dk, &mut dk);
            copy_rows(&scratch.dv, &mut dv);
        },
    );
    Ok(())
}

/// What a thread works in.
struct Scratch {
    /// Scores, then their gradient.
    scores: Vec<f32>,
    /// Gradient of the weights, then the weights that were not dropped.
    weights: Vec<f32>,
    /// `[TILE, d_head]`
    dq: Vec<f32>,
    /// `[seq, d_head]`
    dk: Vec<f32>,
    /// `[seq, d_head]`
    dv: Vec<f32>,
}

impl Scratch {
    fn new(shape: Attention) -> Self {
        let (seq, width) = (shape.seq(), shape.d_head());
        Self {
            scores: vec![0.0; Tile::buffer(seq)],
            weights: vec![0.0; Tile::buffer(seq)],
            dq: vec![0.0; TILE * width],
            dk: vec![0.0; seq * width],
            dv: vec![0.0; seq * width],
        }
    }
}

/// One head of one sequence.
struct Task<'a> {
    shape: Attention,
    head: Head<'a>,
    index: usize,
    mask: Option<DropoutMask>,
    /// Of this head. `[seq]`
    lse: &'a [f32],
    out: &'a [f32],
    dout: &'a [f32],
}

impl<'a> Task<'a> {
    /// This head's rows of a tensor like `out`, from a position on.
    fn rows(&self, tensor: &'a [f32], position: usize) -> &'a [f32] {
        let (heads, width) = (self.shape.heads(), self.shape.d_head());
        let (batch, head) = (self.index / heads, self.index % heads);
        let row = batch * self.shape.seq() + position;
        &tensor[(row * heads + head) * width..]
    }

    /// Adds what a tile of queries gives to keys and values, and writes its own gradient.
    fn tile(&self, tile: &Tile, scratch: &mut Scratch) {
        let width = self.shape.d_head();
        let row = self.shape.heads() * width;
        let (first, count) = (tile.queries.start, tile.queries.len());
        let dout = Matrix::new(self.rows(self.dout, first), count, width, row);
        let mut dots = [0.0; TILE];
        for (r, dot) in dots[..count].iter_mut().enumerate() {
            let dout = &self.rows(self.dout, first + r)[..width];
            let out = &self.rows(self.out, first + r)[..width];
            (*dot, _) = sum_pairs(dout, out, |a, b| (a * b, 0.0));
        }
        for panel in tile.panels() {
            self.head.scores(tile, &panel, &mut scratch.scores);
            let view = |data| MatrixMut {
                data,
                rows: count,
                columns: panel.len(),
                stride: tile.stride,
            };
            let values = self.head.part(2, panel.clone());
            product(
                1.0,
                dout,
                values.transposed(),
                Place::Set,
                view(&mut scratch.weights),
            );
            self.differentiate(tile, &panel, &dots, scratch);
            let weights = Matrix::new(&scratch.weights, count, panel.len(), tile.stride);
            let dscores = Matrix::new(&scratch.scores, count, panel.len(), tile.stride);
            product(
                1.0,
                weights.transposed(),
                dout,
                Place::Add,
                MatrixMut {
                    data: &mut scratch.dv[panel.start * width..],
                    rows: panel.len(),
                    columns: width,
                    stride: width,
                },
            );
            let queries = self.head.part(0, tile.queries.clone());
            product(
                1.0,
                dscores.transposed(),
                queries,
                Place::Add,
                MatrixMut {
                    data: &mut scratch.dk[panel.start * width..],
                    rows: panel.len(),
                    columns: width,
                    stride: width,
                },
            );
            let place = match panel.start {
                0 => Place::Set,
                _ => Place::Add,
            };
            product(
                1.0,
                dscores,
                self.head.part(1, panel.clone()),
                place,
                MatrixMut {
                    data: &mut scratch.dq,
                    rows: count,
                    columns: width,
                    stride: width,
                },
            );
        }
    }

    /// Turns scores into their gradient, and the gradient of the weights into the weights.
    fn differentiate(
        &self,
        tile: &Tile,
        panel: &Range<usize>,
        dots: &[f32; TILE],
        scratch: &mut Scratch,
    ) {
        let scale = self.shape.scale();
        let lse = &self.lse[tile.queries.clone()];
        let rows = scratch
            .scores
            .chunks_exact_mut(tile.stride)
            .zip(scratch.weights.chunks_exact_mut(tile.stride))
            .zip(lse)
            .zip(dots)
            .enumerate();
        vectorised(
            #[inline(always)]
            || {
                let mut kept = [1.0f32; PANEL];
                for (r, (((scores, weights), &lse), &dot)) in rows {
                    let seen = tile.seen(r, panel);
                    if let Some(mask) = &self.mask {
                        let first = self.head.mask_row(tile.queries.start + r);
                        mask.write(first + panel.start as u64, &mut kept[..seen]);
                    }
                    let whole = hide_future(scores, seen).len();
                    for ((scores, weights), kept) in scores[..whole]
                        .as_chunks_mut::<LANES>()
                        .0
                        .iter_mut()
                        .zip(weights[..whole].as_chunks_mut::<LANES>().0)
                        .zip(kept.as_chunks::<LANES>().0)
                    {
                        for i in 0..LANES {
                            let weight = exp(scores[i] - lse);
                            scores[i] = weight * (weights[i] * kept[i] - dot) * scale;
                            weights[i] = weight * kept[i];
                        }
                    }
                    // Zero times what was never computed need not be zero.
                    scores[seen..whole.max(panel.len())].fill(0.0);
                    weights[seen..whole.max(panel.len())].fill(0.0);
                }
            },
        );
    }
}
