//! What a kernel has to do at least.

/// Memory traffic and arithmetic of one launch, each buffer counted once.
///
/// A measured time says how good a kernel is only beside these: bytes over time against the
/// bandwidth of a copy, operations over time against a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Additions and multiplications; an exponential counts as [`Cost::EXP`].
    pub flops: u64,
}

impl Cost {
    /// Operations that an exponential is counted as: range reduction and a polynomial.
    pub const EXP: u64 = 16;

    /// So many 4-byte elements read and written, and operations.
    pub(crate) const fn of(read: usize, written: usize, flops: u64) -> Self {
        Self {
            read: 4 * read as u64,
            written: 4 * written as u64,
            flops,
        }
    }

    /// Bytes read and written.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.read + self.written
    }
}
