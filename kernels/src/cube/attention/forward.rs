//! Output and log-sum-exp: a cube owns a tile of queries and goes through the keys before them.

use cubecl::{ir::ElemType, prelude::*};

use super::super::philox::Mask;
use super::{
    dropout::{Dropout, apply},
    operands::Layout,
    tile::{Shape, accumulate, load, products, store, write, zeros},
};

/// The lowest finite number: what a running maximum starts from, and what hides a later key.
const LOWEST: f32 = f32::MIN;

#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn forward<E: Float, N: Size>(
    queries: &[Vector<E, N>],
    keys: &[Vector<E, N>],
    values: &[Vector<E, N>],
    output: &mut [E],
    log_sums: &mut [f32],
    query_layout: Layout,
    key_layout: Layout,
    value_layout: Layout,
    output_layout: Layout,
    seq: usize,
    heads: usize,
    tiles: usize,
    cubes: usize,
    scale: f32,
    mask: Mask,
    #[comptime] shape: Shape,
    #[comptime] dropout: Dropout,
    #[define(E)] _dtype: ElemType,
) {
    let cube = CUBE_POS;
    if cube >= cubes {
        terminate!();
    }
    let micro = comptime!(shape.micro);
    let side = comptime!(shape.side);
    let head = cube / tiles;
    // Late queries have most keys before them: they begin first.
    let block = tiles - 1 - cube % tiles;
    let first = block * comptime!(shape.tile);
    let top = UNIT_POS_Y as usize * micro;
    let left = UNIT_POS_X as usize * micro;
    let x = UNIT_POS_X as usize;

    let mut own = Shared::<[f32]>::new_slice(comptime!(shape.matrix()));
    let mut stream = Shared::<[f32]>::new_slice(comptime!(shape.matrix()));
    let mut tile = Shared::<[f32]>::new_slice(comptime!(shape.scores()));
    let mut maxima = Shared::<[f32]>::new_slice(comptime!(shape.tile * shape.side));
    let mut sums = Shared::<[f32]>::new_slice(comptime!(shape.tile * shape.side));

    let mut result = zeros(shape);
    let mut largest = Array::<f32>::new(micro);
    let mut total = Array::<f32>::new(micro);
    #[unroll]
    for i in 0..micro {
        largest[i] = LOWEST;
        total[i] = 0.0f32;
    }

    let start = query_layout.start(head, heads);
    load::<E, N>(
        queries,
        &mut own,
        start,
        query_layout.position,
        first,
        seq,
        shape,
    );
    for step in 0..block + 1 {
        let key = step * comptime!(shape.tile);
        let start = key_layout.start(head, heads);
        load::<E, N>(
            keys,
            &mut stream,
            start,
            key_layout.position,
            key,
            seq,
            shape,
        );
        sync_cube();
        let mut scores = products(&own, &stream, shape);
        #[unroll]
        for i in 0..micro {
            let mut here = LOWEST.runtime();
            #[unroll]
            for j in 0..micro {
                let at = comptime!(i * micro + j);
                let later = key + left + j > first + top + i;
                scores[at] = select(later, LOWEST, scores[at] * scale);
                here = max(here, scores[at]);
            }
            maxima[(top + i) * side + x] = here;
        }
        sync_cube();

        // Nobody reads the keys any more.
        let start = value_layout.start(head, heads);
        load::<E, N>(
            values,
            &mut stream,
            start,
            value_layout.position,
            key,
            seq,
            shape,
        );
        #[unroll]
        for i in 0..micro {
            let mut grown = largest[i];
            for other in 0..side {
                grown = max(grown, maxima[(top + i) * side + other]);
            }
            let shrink = (largest[i] - grown).exp();
            let mut part = 0.0f32.runtime();
            #[unroll]
            for j in 0..micro {
                let at = comptime!(i * micro + j);
                let later = key + left + j > first + top + i;
                scores[at] = select(later, 0.0f32, (scores[at] - grown).exp());
                part += scores[at];
            }
            sums[(top + i) * side + x] = part;
            largest[i] = grown;
            total[i] *= shrink;
            #[unroll]
            for j in 0..comptime!(shape.columns) {
                result[comptime!(i * shape.columns + j)] *= shrink;
            }
        }
        if comptime!(dropout != Dropout::Off) {
            let query = first + top;
            apply(
                &mut scores,
                &mask,
                head,
                heads,
                query,
                key + left,
                seq,
                micro,
                false,
                dropout,
            );
        }
        store(&scores, &mut tile, shape);
        sync_cube();

        #[unroll]
        for i in 0..micro {
            for other in 0..side {
                total[i] += sums[(top + i) * side + other];
            }
        }
        accumulate(&tile, &stream, &mut result, shape);
        sync_cube();
    }

    let mut factors = Array::<f32>::new(micro);
    #[unroll]
    for i in 0..micro {
        factors[i] = 1.0f32 / total[i];
        let row = first + top + i;
        if x == 0 && row < seq {
            log_sums[head * seq + row] = largest[i] + total[i].ln();
        }
    }
    let start = output_layout.start(head, heads);
    write::<E>(
        &result,
        &factors,
        output,
        start,
        output_layout.position,
        first,
        seq,
        shape,
    );
}
