//! The counter-based generator of [`crate::random`], on the device.
//!
//! The host mixes the key; a kernel only evaluates blocks. Words are the same as on the CPU.

use cubecl::prelude::*;

use super::CubeError;
use crate::random::{KeepProbability, StreamKey};

/// Counters have 64 bits of position; kernels over a plain range use the 32-bit index of a block of
/// four.
const MAX_ELEMENTS: usize = 1 << 34;

/// One stream of dropout masks, mixed and ready.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Mask {
    key0: u32,
    key1: u32,
    site: u32,
    salt: u32,
    /// An element is kept where its word is below this,
    threshold: u32,
    /// or this is one: a probability of one has a threshold of 33 bits.
    keep_all: u32,
    /// What a kept element is multiplied by.
    pub(super) scale: f32,
}

/// A mask that nobody reads, for kernels compiled without dropout.
pub(super) fn no_mask() -> MaskLaunch {
    MaskLaunch::new(0, 0, 0, 0, 0, 0, 0.0)
}

/// The same as [`Mask`], as arguments of a launch.
pub(super) fn mask_argument(key: StreamKey, keep: KeepProbability) -> MaskLaunch {
    let [key0, key1, site, salt] = key.open().parts();
    let threshold = keep.threshold();
    MaskLaunch::new(
        key0,
        key1,
        site,
        salt,
        threshold as u32,
        u32::from(threshold > u64::from(u32::MAX)),
        keep.scale(),
    )
}

/// Checks that positions fit into the counter.
pub(super) fn check_positions(elements: usize) -> Result<(), CubeError> {
    if elements <= MAX_ELEMENTS {
        Ok(())
    } else {
        Err(CubeError::TooLarge {
            what: "number of elements under one dropout mask",
            found: elements,
            limit: MAX_ELEMENTS,
        })
    }
}

#[cube]
impl Mask {
    /// The four words of elements `4 * block .. 4 * block + 4`.
    pub(super) fn words(&self, block: u32) -> Vector<u32, Const<4>> {
        philox(block, 0u32, self.site, self.salt, self.key0, self.key1)
    }

    /// The words around element `[row, column]` of a matrix of rows of `width`. The position, not
    /// only that of the block, has up to 64 bits.
    pub(super) fn words_at(&self, row: u32, width: u32, column: u32) -> Vector<u32, Const<4>> {
        let start = row * width;
        let low = start + column;
        let carry = select(low < start, 1u32, 0u32);
        let high = row.mul_hi(width) + carry;
        let block_low = (low >> 2u32) | (high << 30u32);
        philox(
            block_low,
            high >> 2u32,
            self.site,
            self.salt,
            self.key0,
            self.key1,
        )
    }

    /// Whether the element with this word is kept.
    pub(super) fn keeps(&self, word: u32) -> bool {
        word < self.threshold || self.keep_all == 1u32
    }
}

/// Word number `index` of a block.
#[cube]
pub(super) fn pick(words: Vector<u32, Const<4>>, index: u32) -> u32 {
    let low = select(index == 0u32, words.extract(0usize), words.extract(1usize));
    let high = select(index == 2u32, words.extract(2usize), words.extract(3usize));
    select(index < 2u32, low, high)
}

/// Philox 4x32 with ten rounds.
#[cube]
fn philox(c0: u32, c1: u32, c2: u32, c3: u32, k0: u32, k1: u32) -> Vector<u32, Const<4>> {
    let mut w0 = c0;
    let mut w1 = c1;
    let mut w2 = c2;
    let mut w3 = c3;
    let mut key0 = k0;
    let mut key1 = k1;
    #[unroll]
    for _ in 0..10 {
        let high0 = w0.mul_hi(0xD251_1F53u32);
        let low0 = w0 * 0xD251_1F53u32;
        let high1 = w2.mul_hi(0xCD9E_8D57u32);
        let low1 = w2 * 0xCD9E_8D57u32;
        w0 = high1 ^ w1 ^ key0;
        w1 = low1;
        w2 = high0 ^ w3 ^ key1;
        w3 = low0;
        key0 += 0x9E37_79B9u32;
        key1 += 0xBB67_AE85u32;
    }
    let mut words = Vector::<u32, Const<4>>::new(w0);
    words.insert(1usize, w1);
    words.insert(2usize, w2);
    words.insert(3usize, w3);
    words
}
