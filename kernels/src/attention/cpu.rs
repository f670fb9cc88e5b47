//! Forward and recompute on the CPU.

use rayon::prelude::*;

use super::dealt::{by_head, copy_rows};
use super::tile::{Head, TILE, Tile, hide_future, weigh};
use super::{Attention, KERNEL};
use crate::error::{KernelError, lengths};
use crate::matrix::{Matrix, MatrixMut, Place, product};
use crate::random::DropoutMask;
use crate::vector::{exp, max, sum, vectorised};

/// Writes `out` and `lse`.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn forward(
    shape: Attention,
    qkv: &[f32],
    mask: Option<DropoutMask>,
    out: &mut [f32],
    lse: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, qkv, out, lse)?;
    by_head(out, sizes(shape))
        .into_par_iter()
        .zip(lse.par_chunks_mut(shape.seq()))
        .enumerate()
        .for_each_init(
            || Scratch::new(shape),
            |scratch, (index, (mut out, lse))| {
                let head = Head::new(shape, qkv, index);
                for tile in Tile::all(shape.seq()) {
                    let lse = &mut lse[tile.queries.clone()];
                    find_lse(&head, &tile, &mut scratch.scores, lse);
                    let known = tile.has_one_panel();
                    mix(&head, &tile, lse, mask.as_ref(), known, scratch);
                    copy_rows(&scratch.out, &mut out[tile.queries.clone()]);
                }
            },
        );
    Ok(())
}

/// Writes `out` from what forward kept: the same bits, without looking for the log-sum-exp.
///
/// # Errors
///
/// If a buffer's length is not the shape's.
pub fn recompute(
    shape: Attention,
    qkv: &[f32],
    mask: Option<DropoutMask>,
    lse: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, qkv, out, lse)?;
    by_head(out, sizes(shape))
        .into_par_iter()
        .zip(lse.par_chunks(shape.seq()))
        .enumerate()
        .for_each_init(
            || Scratch::new(shape),
            |scratch, (index, (mut out, lse))| {
                let head = Head::new(shape, qkv, index);
                for tile in Tile::all(shape.seq()) {
                    let lse = &lse[tile.queries.clone()];
                    mix(&head, &tile, lse, mask.as_ref(), false, scratch);
                    copy_rows(&scratch.out, &mut out[tile.queries.clone()]);
                }
            },
        );
    Ok(())
}

fn check(shape: Attention, qkv: &[f32], out: &[f32], lse: &[f32]) -> Result<(), KernelError> {
    lengths(
        KERNEL,
        [
            ("qkv", qkv.len(), 3 * shape.elements()),
            ("out", out.len(), shape.elements()),
            ("lse", lse.len(), shape.queries()),
        ],
    )
}

fn sizes(shape: Attention) -> (usize, usize, usize, usize) {
    (shape.batch(), shape.seq(), shape.heads(), shape.d_head())
}

/// What a thread works in.
struct Scratch {
    scores: Vec<f32>,
    /// `[TILE, d_head]`
    out: Vec<f32>,
}

impl Scratch {
    fn new(shape: Attention) -> Self {
        Self {
            scores: vec![0.0; Tile::buffer(shape.seq())],
            out: vec![0.0; TILE * shape.d_head()],
        }
    }
}

/// Finds the log-sum-exp of a tile's queries, panel by panel with a running maximum. Leaves the
/// scores of the last panel, hidden ones included, in `scores`.
fn find_lse(head: &Head<'_>, tile: &Tile, scores: &mut [f32], lse: &mut [f32]) {
    let mut largest = [f32::NEG_INFINITY; TILE];
    let mut total = [0.0f32; TILE];
    for panel in tile.panels() {
        head.scores(tile, &panel, scores);
        vectorised(
            #[inline(always)]
            || {
                for (r, row) in scores
                    .chunks_exact_mut(tile.stride)
                    .take(lse.len())
                    .enumerate()
                {
                    let seen = hide_future(row, tile.seen(r, &panel));
                    let before = largest[r];
                    let now = before.max(max(seen));
                    // Nothing so far: minus infinity from itself is no number.
                    let fade = if before == now {
                        1.0
                    } else {
                        exp(before - now)
                    };
                    largest[r] = now;
                    total[r] = total[r] * fade + sum(seen, |score| exp(score - now));
                }
            },
        );
    }
    for ((lse, largest), total) in lse.iter_mut().zip(largest).zip(total) {
        *lse = largest + total.ln();
    }
}

/// Mixes the values of a tile by its weights, into `scratch.out`.
fn mix(
    head: &Head<'_>,
    tile: &Tile,
    lse: &[f32],
    mask: Option<&DropoutMask>,
    scores_are_known: bool,
    scratch: &mut Scratch,
) {
    let rows = tile.queries.len();
    for panel in tile.panels() {
        let scores = &mut scratch.scores;
        if !scores_are_known {
            head.scores(tile, &panel, scores);
        }
        vectorised(
            #[inline(always)]
            || {
                for (r, (row, &lse)) in scores.chunks_exact_mut(tile.stride).zip(lse).enumerate() {
                    let seen = tile.seen(r, &panel);
                    if !scores_are_known {
                        hide_future(row, seen);
                    }
                    let first = head.mask_row(tile.queries.start + r) + panel.start as u64;
                    let mask = mask.map(|mask| (mask, first));
                    weigh(row, seen, panel.len(), lse, mask);
                }
            },
        );
        let values = head.part(2, panel.clone());
        let width = scratch.out.len() / TILE;
        let place = match panel.start {
            0 => Place::Set,
            _ => Place::Add,
        };
        product(
            1.0,
            Matrix::new(scores, rows, panel.len(), tile.stride),
            values,
            place,
            MatrixMut {
                data: &mut scratch.out,
                rows,
                columns: width,
                stride: width,
            },
        );
    }
}
