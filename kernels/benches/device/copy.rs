//! The yardstick: a kernel that copies.

use cubecl::{
    calculate_cube_count_elemwise,
    ir::{ElemType, FloatKind},
    prelude::*,
    server::Handle,
};

/// Copies `bytes`, a multiple of sixteen, from one buffer to another.
pub(crate) fn copy(client: &Client, from: &Handle, to: &Handle, bytes: usize) {
    let vectors = bytes / 16;
    let dim = CubeDim::new(client, vectors);
    // SAFETY: units stay below the number of vectors that both buffers hold.
    unsafe {
        kernel::launch_unchecked(
            client,
            calculate_cube_count_elemwise(client, vectors, dim),
            dim,
            4,
            BufferArg::from_raw_parts(from.clone(), vectors * 4),
            BufferArg::from_raw_parts(to.clone(), vectors * 4),
            vectors,
            ElemType::Float(FloatKind::F32),
        );
    }
}

#[cube(launch_unchecked)]
fn kernel<E: Float, N: Size>(
    from: &[Vector<E, N>],
    to: &mut [Vector<E, N>],
    vectors: usize,
    #[define(E)] _dtype: ElemType,
) {
    if ABSOLUTE_POS < vectors {
        to[ABSOLUTE_POS] = from[ABSOLUTE_POS];
    }
}
