//! Rows of a tensor, dealt to the heads that write them.
//!
//! Heads lie side by side in a row, so the piece that a head writes is not contiguous. Dealt as
//! slices, one for each position, every task owns what it writes.

/// For each of `batch * heads` tasks, its piece of every row: `data` is
/// `[batch, seq, heads, d_head]`.
pub(super) fn by_head(
    data: &mut [f32],
    (batch, seq, heads, d_head): (usize, usize, usize, usize),
) -> Vec<Vec<&mut [f32]>> {
    let mut dealt: Vec<Vec<&mut [f32]>> = (0..batch * heads)
        .map(|_| Vec::with_capacity(seq))
        .collect();
    for (index, piece) in data.chunks_exact_mut(d_head).enumerate() {
        let (position, head) = (index / heads, index % heads);
        dealt[position / seq * heads + head].push(piece);
    }
    dealt
}

/// Copies a matrix of contiguous rows into such pieces.
pub(super) fn copy_rows(rows: &[f32], pieces: &mut [&mut [f32]]) {
    let Some(width) = pieces.first().map(|piece| piece.len()) else {
        return;
    };
    for (piece, row) in pieces.iter_mut().zip(rows.chunks_exact(width)) {
        piece.copy_from_slice(row);
    }
}
