//! The counter-based generator of [`crate::random`], on the device.
//!
//! The host mixes the key; a kernel only evaluates blocks. Words are the same as on the CPU.

use cubecl::prelude::*;

use super::CubeError;
use crate::random::DropoutMask;

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
    /// An element is kept where its word is at most this.
    last_kept: u32,
    /// What a kept element is multiplied by.
    pub(super) scale: f32,
    /// Of each row of the whole that has so many elements (attention: rows of scores),
    pub(super) whole: u32,
    /// the first that the tensor holds,
    pub(super) first: u32,
    /// and how many (attention: unused).
    length: u32,
}

/// Where the elements of a kernel's tensor have their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// The tensor is the mask's whole one.
    Same,
    /// It is a slice, and four of its elements that share a block share one of the whole.
    SliceOfBlocks,
    /// It is a slice, and each element's block has to be found.
    Slice,
}

/// Which part of a larger tensor, in whatever unit a kernel counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    pub(super) whole: u32,
    pub(super) first: u32,
    pub(super) length: u32,
}

/// A mask that nobody reads, for kernels compiled without dropout.
pub(super) fn no_mask() -> MaskLaunch {
    MaskLaunch::new(0, 0, 0, 0, 0, 0.0, 0, 0, 0)
}

/// The same as [`Mask`], as arguments of a launch.
pub(super) fn mask_argument(mask: DropoutMask, part: Part) -> MaskLaunch {
    let ([key0, key1, site, salt], last_kept, scale) = mask.parts();
    let Part {
        whole,
        first,
        length,
    } = part;
    MaskLaunch::new(
        key0, key1, site, salt, last_kept, scale, whole, first, length,
    )
}

/// Checks that positions fit into the counter, and finds where `elements` of a tensor have their
/// words.
pub(super) fn place(mask: DropoutMask, elements: usize) -> Result<(Place, Part), CubeError> {
    let Some(slice) = mask.slice() else {
        return match elements <= MAX_ELEMENTS {
            true => Ok((Place::Same, Part::default())),
            false => Err(CubeError::TooLarge {
                what: "number of elements under one dropout mask",
                found: elements,
                limit: MAX_ELEMENTS,
            }),
        };
    };
    let end = slice.first.checked_add(slice.length);
    if slice.length == 0 || end.is_none_or(|end| end > slice.whole) {
        return Err(CubeError::Slice {
            found: slice,
            expected: "a run of a row's elements",
        });
    }
    let rows = elements.div_ceil(slice.length);
    let (Ok(whole), Ok(_)) = (u32::try_from(slice.whole), u32::try_from(rows)) else {
        return Err(CubeError::TooLarge {
            what: "row, or number of rows, of a sliced dropout mask",
            found: slice.whole.max(rows),
            limit: u32::MAX as usize,
        });
    };
    // Both lie inside of a row.
    let part = Part {
        whole,
        first: slice.first as u32,
        length: slice.length as u32,
    };
    let blocks = [part.whole, part.first, part.length];
    Ok(match blocks.iter().all(|n| n.is_multiple_of(4)) {
        true => (Place::SliceOfBlocks, part),
        false => (Place::Slice, part),
    })
}

#[cube]
impl Mask {
    /// The four words of elements `4 * block .. 4 * block + 4` of a tensor. Of a slice that is not
    /// made of blocks, nothing.
    pub(super) fn words(&self, block: usize, #[comptime] place: Place) -> Vector<u32, Const<4>> {
        let mut words = Vector::<u32, Const<4>>::new(0u32);
        if comptime!(place == Place::Same) {
            words = self.block(block as u32, 0u32);
        }
        if comptime!(place == Place::SliceOfBlocks) {
            // In blocks, so that a tensor's last ones do not overflow.
            let length = (self.length / 4u32) as usize;
            let row = (block / length) as u32;
            let column = (block % length) as u32;
            words = self.words_at(row, self.whole, self.first + 4u32 * column);
        }
        words
    }

    /// The word of one element of a tensor.
    pub(super) fn word(&self, element: usize, #[comptime] place: Place) -> u32 {
        if comptime!(place == Place::Slice) {
            let length = self.length as usize;
            let row = (element / length) as u32;
            let column = self.first + (element % length) as u32;
            let words = self.words_at(row, self.whole, column);
            pick(words, (row * self.whole + column) % 4u32)
        } else {
            pick(self.words(element / 4, place), (element % 4) as u32)
        }
    }

    /// The words around element `[row, column]` of a matrix of rows of `width`. The position, not
    /// only that of the block, has up to 64 bits.
    pub(super) fn words_at(&self, row: u32, width: u32, column: u32) -> Vector<u32, Const<4>> {
        let start = row * width;
        let low = start + column;
        let carry = select(low < start, 1u32, 0u32);
        let high = row.mul_hi(width) + carry;
        self.block((low >> 2u32) | (high << 30u32), high >> 2u32)
    }

    /// The words of the whole's block of this number.
    fn block(&self, low: u32, high: u32) -> Vector<u32, Const<4>> {
        philox(low, high, self.site, self.salt, self.key0, self.key1)
    }

    /// Whether the element with this word is kept.
    pub(super) fn keeps(&self, word: u32) -> bool {
        word <= self.last_kept
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
