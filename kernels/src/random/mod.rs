//! Counter-based random numbers: a value depends on its key and position only.

mod dropout;
mod normal;
mod philox;
mod stream;

pub use dropout::{
    DropoutError, DropoutMask, KeepProbability, RowSlice, fill_dropout_mask,
    fill_dropout_mask_slice,
};
pub use normal::fill_normal;
pub use philox::Philox4x32;
pub use stream::StreamKey;

/// Elements that one parallel task fills. A multiple of four, so that every task starts on a
/// Philox block; large enough that a task outweighs its hand-over.
const CHUNK: usize = 1 << 14;
