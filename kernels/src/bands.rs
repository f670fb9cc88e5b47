//! How work is dealt to threads.
//!
//! A tensor of rows is cut into bands, by its sizes alone and never by the number of threads. A
//! band is one task; what a column sum needs from a band is a partial of its own, and partials are
//! added in the order of bands. So every result has the same bits on one thread and on a hundred.

/// Elements that one task covers, about: a task then outweighs its hand-over by far, and its
/// buffers stay in the cache of one core.
const ELEMENTS: usize = 1 << 14;

/// Rows of a band, one at least.
pub(crate) fn rows(width: usize) -> usize {
    (ELEMENTS / width.max(1)).max(1)
}

/// Writes the sum of rows of `width` to `sum`, added in their order.
#[inline(always)]
pub(crate) fn add_up(rows: &[f32], width: usize, sum: &mut [f32]) {
    sum.fill(0.0);
    for row in rows.chunks_exact(width) {
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += value;
        }
    }
}
