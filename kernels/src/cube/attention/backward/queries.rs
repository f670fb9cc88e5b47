//! A cube owns a tile of queries, and goes through the keys before them.

use cubecl::{ir::ElemType, prelude::*};

use super::super::super::philox::Mask;
use super::super::{
    dropout::{Dropout, apply},
    operands::Layout,
    tile::{Shape, accumulate, load, products, store, write, zeros},
};

/// Gradients of a tile of queries, from the keys before them.
#[allow(clippy::too_many_arguments)]
#[cube(launch_unchecked, address_type = "dynamic")]
pub(in super::super) fn of_queries<E: Float, N: Size>(
    queries: &[Vector<E, N>],
    keys: &[Vector<E, N>],
    values: &[Vector<E, N>],
    gradient: &[Vector<E, N>],
    statistics: &[f32],
    query_gradient: &mut [E],
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
    let block = tiles - 1 - cube % tiles;
    let first = block * comptime!(shape.tile);
    let top = UNIT_POS_Y as usize * micro;
    let left = UNIT_POS_X as usize * micro;

    let mut own = Shared::<[f32]>::new_slice(comptime!(shape.matrix()));
    let mut incoming = Shared::<[f32]>::new_slice(comptime!(shape.matrix()));
    let mut stream = Shared::<[f32]>::new_slice(comptime!(shape.matrix()));
    let mut tile = Shared::<[f32]>::new_slice(comptime!(shape.scores()));
    let mut result = zeros(shape);
    let mut log_sum = Array::<f32>::new(micro);
    let mut delta = Array::<f32>::new(micro);
    #[unroll]
    for i in 0..micro {
        let row = head * seq + min(first + top + i, seq - 1);
        log_sum[i] = statistics[2 * row];
        delta[i] = statistics[2 * row + 1];
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
    let start = gradient_layout.start(head, heads);
    load::<E, N>(
        gradient,
        &mut incoming,
        start,
        gradient_layout.position,
        first,
        seq,
        shape,
    );
    for step in 0..block + 1 {
        let key = step * comptime!(shape.tile);
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
        sync_cube();
        let mut slopes = products(&incoming, &stream, shape);
        if comptime!(dropout != Dropout::Off) {
            let query = first + top;
            apply(
                &mut slopes,
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
        sync_cube();

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
        let scores = products(&own, &stream, shape);
        #[unroll]
        for i in 0..micro {
            #[unroll]
            for j in 0..micro {
                let at = comptime!(i * micro + j);
                let later = key + left + j > first + top + i;
                let probability = (scores[at] * scale - log_sum[i]).exp();
                let slope = probability * (slopes[at] - delta[i]);
                slopes[at] = select(later, 0.0f32, slope);
            }
        }
        store(&slopes, &mut tile, shape);
        sync_cube();
        accumulate(&tile, &stream, &mut result, shape);
        sync_cube();
    }

    let mut factors = Array::<f32>::new(micro);
    #[unroll]
    for i in 0..micro {
        factors[i] = scale;
    }
    let start = result_layout.start(head, heads);
    write::<E>(
        &result,
        &factors,
        query_gradient,
        start,
        result_layout.position,
        first,
        seq,
        shape,
    );
}
