//! A cube owns a tile of keys and values, and goes through the queries after them.

use cubecl::{ir::ElemType, prelude::*};

use super::super::super::philox::Mask;
use super::super::{
    dropout::{Dropout, apply},
    operands::Layout,
    tile::{Shape, accumulate, load, products, store, write, zeros},
};

/// Gradients of a tile of keys and values, from the queries after them. Tiles of scores are
/// transposed here: a row belongs to a key.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(in super::super) fn of_keys_and_values<E: Float, N: Size>(
    queries: &[Vector<E, N>],
    keys: &[Vector<E, N>],
    values: &[Vector<E, N>],
    gradient: &[Vector<E, N>],
    statistics: &[f32],
    key_gradient: &mut [E],
    value_gradient: &mut [E],
    query_layout: Layout,
    key_layout: Layout,
    value_layout: Layout,
    gradient_layout: Layout,
    result_layout: Layout,
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
    let head = cube / tiles;
    // Early keys have most queries after them: they begin first.
    let block = cube % tiles;
    let first = block * comptime!(shape.tile);
    let top = UNIT_POS_Y as usize * micro;
    let left = UNIT_POS_X as usize * micro;

    let mut own_keys = Shared::<[f32]>::new_slice(comptime!(shape.matrix()));
    let mut own_values = Shared::<[f32]>::new_slice(comptime!(shape.matrix()));
    let mut stream = Shared::<[f32]>::new_slice(comptime!(shape.matrix()));
    let mut tile = Shared::<[f32]>::new_slice(comptime!(shape.scores()));
    let mut of_keys = zeros(shape);
    let mut of_values = zeros(shape);
    let mut log_sum = Array::<f32>::new(micro);
    let mut delta = Array::<f32>::new(micro);

    let start = key_layout.start(head, heads);
    load::<E, N>(
        keys,
        &mut own_keys,
        start,
        key_layout.position,
        first,
        seq,
        shape,
    );
    let start = value_layout.start(head, heads);
    load::<E, N>(
        values,
        &mut own_values,
        start,
        value_layout.position,
        first,
        seq,
        shape,
    );
    let query_start = query_layout.start(head, heads);
    let gradient_start = gradient_layout.start(head, heads);
    for step in block..tiles {
        let query = step * comptime!(shape.tile);
        #[unroll]
        for j in 0..micro {
            let row = head * seq + min(query + left + j, seq - 1);
            log_sum[j] = statistics[2 * row];
            delta[j] = statistics[2 * row + 1];
        }
        load::<E, N>(
            queries,
            &mut stream,
            query_start,
            query_layout.position,
            query,
            seq,
            shape,
        );
        sync_cube();
        let scores = products(&own_keys, &stream, shape);
        sync_cube();

        load::<E, N>(
            gradient,
            &mut stream,
            gradient_start,
            gradient_layout.position,
            query,
            seq,
            shape,
        );
        let mut probabilities = Array::<f32>::new(comptime!(micro * micro));
        let mut dropped = Array::<f32>::new(comptime!(micro * micro));
        #[unroll]
        for i in 0..micro {
            #[unroll]
            for j in 0..micro {
                let at = comptime!(i * micro + j);
                let at_query = query + left + j;
                let hidden = first + top + i > at_query || at_query >= seq;
                let probability = (scores[at] * scale - log_sum[j]).exp();
                probabilities[at] = select(hidden, 0.0f32, probability);
                dropped[at] = probabilities[at];
            }
        }
        if comptime!(dropout != Dropout::Off) {
            apply(
                &mut dropped,
                &mask,
                head,
                heads,
                query + left,
                first + top,
                seq,
                micro,
                true,
                dropout,
            );
        }
        store(&dropped, &mut tile, shape);
        sync_cube();
        accumulate(&tile, &stream, &mut of_values, shape);
        let mut slopes = products(&own_values, &stream, shape);
        if comptime!(dropout != Dropout::Off) {
            apply(
                &mut slopes,
                &mask,
                head,
                heads,
                query + left,
                first + top,
                seq,
                micro,
                true,
                dropout,
            );
        }
        #[unroll]
        for i in 0..micro {
            #[unroll]
            for j in 0..micro {
                let at = comptime!(i * micro + j);
                slopes[at] = probabilities[at] * (slopes[at] - delta[j]);
            }
        }
        sync_cube();

        load::<E, N>(
            queries,
            &mut stream,
            query_start,
            query_layout.position,
            query,
            seq,
            shape,
        );
        store(&slopes, &mut tile, shape);
        sync_cube();
        accumulate(&tile, &stream, &mut of_keys, shape);
        sync_cube();
    }

    let mut factors = Array::<f32>::new(micro);
    #[unroll]
    for i in 0..micro {
        factors[i] = scale;
    }
    let start = result_layout.start(head, heads);
    let position = result_layout.position;
    write::<E>(
        &of_keys,
        &factors,
        key_gradient,
        start,
        position,
        first,
        seq,
        shape,
    );
    #[unroll]
    for i in 0..micro {
        factors[i] = 1.0f32;
    }
    write::<E>(
        &of_values,
        &factors,
        value_gradient,
        start,
        position,
        first,
        seq,
        shape,
    );
}
