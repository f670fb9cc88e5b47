//! Philox 4x32 with ten rounds.

/// Multipliers and Weyl increments of Philox 4x32 (Salmon et al., SC 2011, table 2 and section
/// 4.4; the same as in the authors' Random123 library).
const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The Philox 4x32-10 bijection under one key.
///
/// It holds no state: [`block`](Self::block) of the same counter is always the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox4x32 {
    key: [u32; 2],
}

impl Philox4x32 {
    /// The bijection selected by `key`.
    #[must_use]
    pub const fn new(key: [u32; 2]) -> Self {
        Self { key }
    }

    /// The key.
    #[cfg(feature = "cube")]
    pub(super) const fn key(&self) -> [u32; 2] {
        self.key
    }

    /// The four random words at `counter`.
    #[inline]
    #[must_use]
    pub fn block(&self, counter: [u32; 4]) -> [u32; 4] {
        let mut key = self.key;
        let mut words = round(counter, key);
        for _ in 1..ROUNDS {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
            words = round(words, key);
        }
        words
    }
}

/// Blocks that [`Philox4x32::blocks`] makes at a time: four vectors of AVX2 for each word,
/// enough independent work to hide the latency of ten rounds.
pub(super) const SIDE_BY_SIDE: usize = 16;

impl Philox4x32 {
    /// The blocks at counters that differ in their first two words: elements `2 i` and
    /// `2 i + 1` are block `i`, two words in each, the first in the lower half.
    ///
    /// Inside, a word lies in the lower half of 64 bits, and what is in the upper half is never
    /// cleared, because a multiplication looks at the lower halves alone: one instruction for four
    /// products, and no shuffling between rounds.
    #[inline(always)]
    pub(super) fn blocks(
        &self,
        first: [u32; SIDE_BY_SIDE],
        second: [u32; SIDE_BY_SIDE],
        rest: [u32; 2],
    ) -> [u64; 2 * SIDE_BY_SIDE] {
        const LOW: u64 = u32::MAX as u64;
        let (mut a, mut b) = ([0; SIDE_BY_SIDE], [0; SIDE_BY_SIDE]);
        let mut c = [u64::from(rest[0]); SIDE_BY_SIDE];
        let mut d = [u64::from(rest[1]); SIDE_BY_SIDE];
        for i in 0..SIDE_BY_SIDE {
            (a[i], b[i]) = (u64::from(first[i]), u64::from(second[i]));
        }
        let mut key = self.key;
        for _ in 0..ROUNDS {
            for i in 0..SIDE_BY_SIDE {
                let first = (a[i] & LOW) * u64::from(MULTIPLIER[0]);
                let second = (c[i] & LOW) * u64::from(MULTIPLIER[1]);
                a[i] = (second >> 32) ^ b[i] ^ u64::from(key[0]);
                b[i] = second;
                c[i] = (first >> 32) ^ d[i] ^ u64::from(key[1]);
                d[i] = first;
            }
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        // Without this the compiler arranges the rounds after the order of the result, and every
        // round shuffles. Through memory, the rounds are four straight vectors each.
        let [a, b, c, d] = std::hint::black_box([a, b, c, d]);
        let mut words = [0; 2 * SIDE_BY_SIDE];
        for i in 0..SIDE_BY_SIDE {
            words[2 * i] = (a[i] & LOW) | (b[i] << 32);
            words[2 * i + 1] = (c[i] & LOW) | (d[i] << 32);
        }
        words
    }
}

#[inline]
fn round(words: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let first = u64::from(words[0]) * u64::from(MULTIPLIER[0]);
    let second = u64::from(words[2]) * u64::from(MULTIPLIER[1]);
    [
        (second >> 32) as u32 ^ words[1] ^ key[0],
        second as u32,
        (first >> 32) as u32 ^ words[3] ^ key[1],
        first as u32,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_side_by_side_are_the_same_as_one_after_the_other() {
        let generator = Philox4x32::new([0xa409_3822, 0x299f_31d0]);
        let first = std::array::from_fn(|i| [0, 1, u32::MAX, 1 << 31, 99][i % 5] ^ i as u32);
        let second = std::array::from_fn(|i| [5, u32::MAX, 1, 0][i % 4]);
        let words = generator.blocks(first, second, [11, 12]);
        for i in 0..SIDE_BY_SIDE {
            let expected = generator.block([first[i], second[i], 11, 12]);
            let [ab, cd] = [words[2 * i], words[2 * i + 1]];
            let found = [ab as u32, (ab >> 32) as u32, cd as u32, (cd >> 32) as u32];
            assert_eq!(found, expected, "{i}");
        }
    }

    /// The known-answer vectors that Random123 publishes for `philox4x32` with 10 rounds
    /// (`tests/kat_vectors`): zeros, ones, and the digits of pi.
    #[test]
    fn the_published_known_answers_come_out() {
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(Philox4x32::new(key).block(counter), expected);
        }
    }
}
