//! Dropout masks that nobody has to store.

use rayon::prelude::*;

use super::philox::SIDE_BY_SIDE;
use super::stream::Stream;
use super::{CHUNK, StreamKey};
use crate::vector::vectorised;

/// The probability that dropout lets an element through, in `(0, 1]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeepProbability(f64);

/// A dropout probability that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum DropoutError {
    /// Not a number in `[0, 1)`.
    #[error("dropout probability {0} is not in [0, 1)")]
    OutOfRange(f64),
}

impl KeepProbability {
    /// From the probability of *dropping* an element.
    ///
    /// # Errors
    ///
    /// [`DropoutError::OutOfRange`] unless `drop` is in `[0, 1)`.
    pub fn from_drop(drop: f64) -> Result<Self, DropoutError> {
        if drop.is_finite() && (0.0..1.0).contains(&drop) {
            Ok(Self(1.0 - drop))
        } else {
            Err(DropoutError::OutOfRange(drop))
        }
    }

    /// The probability itself.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// What a kept element is multiplied by, so that the expectation stays.
    pub(crate) fn scale(self) -> f32 {
        (1.0 / self.0) as f32
    }

    /// Kept elements are those whose random word is below this.
    pub(crate) fn threshold(self) -> u64 {
        (self.0 * (1u64 << 32) as f64).round() as u64
    }
}

/// Which elements of a larger tensor a tensor holds: of each row of the whole, a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSlice {
    /// Elements of a row of the whole.
    pub whole: usize,
    /// The first of them that is held.
    pub first: usize,
    /// How many are held.
    pub length: usize,
}

/// Elements of the blocks that are made side by side.
const GROUP: usize = 4 * SIDE_BY_SIDE;

/// A dropout mask, made where it is used: `1 / keep` for kept elements and `0` for dropped ones.
///
/// Element `i` depends on the key and `i` only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutMask {
    stream: Stream,
    /// Kept elements are those whose random word is at most this.
    last_kept: u32,
    /// What kept elements are multiplied by.
    scale: f32,
    /// Where elements lie in a larger tensor.
    slice: Option<RowSlice>,
}

impl DropoutMask {
    /// The mask of the stream that `key` names.
    #[must_use]
    pub fn new(key: StreamKey, keep: KeepProbability) -> Self {
        let threshold = keep.threshold();
        // A probability that rounds to none of the words keeps nothing.
        let (last_kept, scale) = match threshold.checked_sub(1) {
            Some(last) => (u32::try_from(last).unwrap_or(u32::MAX), keep.scale()),
            None => (0, 0.0),
        };
        Self {
            stream: key.open(),
            last_kept,
            scale,
            slice: None,
        }
    }

    /// Of a larger tensor's mask, the part that a slice of that tensor has.
    #[must_use]
    pub fn of(self, slice: RowSlice) -> Self {
        Self {
            slice: Some(slice),
            ..self
        }
    }

    /// Which part of a larger tensor's mask it is, if it is one.
    #[must_use]
    pub const fn slice(&self) -> Option<RowSlice> {
        self.slice
    }

    /// Key, site and salt of its stream, the last word that lets an element through, and what that is
    /// multiplied by: what a device needs to draw it.
    #[cfg(feature = "cube")]
    pub(crate) fn parts(self) -> ([u32; 4], u32, f32) {
        (self.stream.parts(), self.last_kept, self.scale)
    }

    /// Fills `mask` with the values of its elements.
    pub fn fill(self, mask: &mut [f32]) {
        mask.par_chunks_mut(CHUNK)
            .enumerate()
            .for_each(|(chunk, values)| {
                vectorised(
                    #[inline(always)]
                    || self.write((chunk * CHUNK) as u64, values),
                );
            });
    }

    /// Writes the mask of the elements from number `first` on.
    #[inline(always)]
    pub(crate) fn write(&self, first: u64, values: &mut [f32]) {
        match self.slice {
            None => self.write_whole(first, values),
            Some(slice) => self.write_slice(slice, first, values),
        }
    }

    /// The same of a slice: row by row.
    #[inline(always)]
    fn write_slice(&self, slice: RowSlice, first: u64, values: &mut [f32]) {
        let length = slice.length as u64;
        let (mut index, mut rest) = (first, values);
        // An empty slice has no elements to ask for.
        while !rest.is_empty() && length > 0 {
            let (row, column) = (index / length, index % length);
            let now = rest.len().min((length - column) as usize);
            let (values, later) = rest.split_at_mut(now);
            let whole = row * slice.whole as u64 + slice.first as u64 + column;
            self.write_whole(whole, values);
            rest = later;
            index += now as u64;
        }
    }

    #[inline(always)]
    fn write_whole(&self, first: u64, values: &mut [f32]) {
        let mut block = first / 4;
        let before = (first % 4) as usize;
        let mut rest = values;
        if before > 0 {
            let (now, later) = rest.split_at_mut((GROUP - before).min(rest.len()));
            now.copy_from_slice(&self.group(block)[before..before + now.len()]);
            rest = later;
            block += SIDE_BY_SIDE as u64;
        }
        let (groups, rest) = rest.as_chunks_mut::<GROUP>();
        for group in groups {
            *group = self.group(block);
            block += SIDE_BY_SIDE as u64;
        }
        if !rest.is_empty() {
            let length = rest.len();
            rest.copy_from_slice(&self.group(block)[..length]);
        }
    }

    /// The mask of an element by its word.
    #[inline(always)]
    fn value(&self, word: u32) -> f32 {
        if word <= self.last_kept {
            self.scale
        } else {
            0.0
        }
    }

    /// The mask of the blocks that are made side by side.
    #[inline(always)]
    fn group(&self, block: u64) -> [f32; GROUP] {
        let words = self.stream.blocks(block);
        let mut values = [0.0; GROUP];
        for (values, pair) in values.as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *values = [self.value(pair as u32), self.value((pair >> 32) as u32)];
        }
        values
    }
}

/// Fills `mask` with `1 / keep` where an element is kept and `0` where it is dropped.
///
/// Element `i` depends on `key` and `i` only.
pub fn fill_dropout_mask(key: StreamKey, keep: KeepProbability, mask: &mut [f32]) {
    DropoutMask::new(key, keep).fill(mask);
}

/// As [`fill_dropout_mask`], for the elements of a larger tensor that `slice` names: they get the
/// values that they have in the whole tensor's mask.
pub fn fill_dropout_mask_slice(
    key: StreamKey,
    keep: KeepProbability,
    slice: RowSlice,
    mask: &mut [f32],
) {
    DropoutMask::new(key, keep).of(slice).fill(mask);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: StreamKey = StreamKey {
        seed: 11,
        step: 3,
        micro_batch: 1,
        segment: 7,
        site: 0,
    };

    #[test]
    fn probabilities_outside_the_half_open_unit_interval_are_refused() {
        for drop in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
            assert!(KeepProbability::from_drop(drop).is_err(), "{drop}");
        }
    }

    #[test]
    fn the_kept_share_is_the_probability() {
        let n = 1 << 20;
        for drop in [0.1, 0.5, 0.9] {
            let mut mask = vec![0.0; n];
            let keep = KeepProbability::from_drop(drop).expect("valid");
            fill_dropout_mask(KEY, keep, &mut mask);
            let kept = mask.iter().filter(|&&m| m != 0.0).count() as f64 / n as f64;
            // Six standard deviations of a binomial share.
            let bound = 6.0 * (drop * (1.0 - drop) / n as f64).sqrt();
            assert!((kept - keep.get()).abs() < bound, "drop {drop}: {kept}");
            assert!(
                mask.iter()
                    .all(|&m| m == 0.0 || m == (1.0 / keep.get()) as f32)
            );
        }
    }

    #[test]
    fn nothing_is_dropped_at_probability_zero() {
        let mut mask = vec![0.0; 1000];
        fill_dropout_mask(
            KEY,
            KeepProbability::from_drop(0.0).expect("valid"),
            &mut mask,
        );
        assert!(mask.iter().all(|&m| m == 1.0));
    }

    /// The definition, one word after the other.
    #[test]
    fn an_element_is_kept_if_its_word_is_below_the_probability() {
        let keep = KeepProbability::from_drop(0.25).expect("valid");
        let mask = DropoutMask::new(KEY, keep);
        let mut whole = vec![0.0; 1000];
        fill_dropout_mask(KEY, keep, &mut whole);
        for (i, &value) in whole.iter().enumerate() {
            let word = KEY.open().block(i as u64 / 4)[i % 4];
            let kept = f64::from(word) < 0.75 * 2f64.powi(32);
            assert_eq!(
                value,
                if kept { (1.0f64 / 0.75) as f32 } else { 0.0 },
                "{i}"
            );
        }
        for first in 0..40 {
            for length in [1, 3, 4, 63, 64, 65, 200] {
                let mut part = vec![9.0; length];
                mask.write(first as u64, &mut part);
                assert_eq!(part, whole[first..first + length], "{length} from {first}");
            }
        }
    }

    proptest! {
        /// Oracle: the whole mask, cut by hand.
        #[test]
        fn a_slice_has_the_values_that_it_has_in_the_whole(
            whole in 1usize..40,
            rows in 1usize..9,
            from in 0.0..1.0f64,
            to in 0.0..1.0f64,
        ) {
            let keep = KeepProbability::from_drop(0.4).expect("valid");
            let mut all = vec![0.0; whole * rows];
            fill_dropout_mask(KEY, keep, &mut all);
            let at = |share: f64| (share * whole as f64) as usize;
            let (first, last) = (at(from).min(at(to)), at(from).max(at(to)));
            let slice = RowSlice { whole, first, length: last + 1 - first };
            let mut part = vec![0.0; slice.length * rows];
            fill_dropout_mask_slice(KEY, keep, slice, &mut part);
            let expected: Vec<f32> = all.chunks(whole).flat_map(|row| row[first..=last].to_vec()).collect();
            prop_assert_eq!(part, expected);
        }

        /// A longer mask begins with the shorter one, and the number of threads changes nothing.
        #[test]
        fn an_element_depends_on_its_index_only(short in 1usize..40_000, more in 0usize..40_000) {
            let keep = KeepProbability::from_drop(0.3).expect("valid");
            let mut a = vec![0.0; short];
            let mut b = vec![0.0; short + more];
            let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
            one.install(|| fill_dropout_mask(KEY, keep, &mut a));
            fill_dropout_mask(KEY, keep, &mut b);
            prop_assert_eq!(&a[..], &b[..short]);
        }
    }
}
