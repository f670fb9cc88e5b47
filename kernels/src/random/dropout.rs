//! Dropout masks that nobody has to store.

use rayon::prelude::*;

use super::{CHUNK, StreamKey};

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

    /// Kept elements are those whose random word is below this.
    fn threshold(self) -> u64 {
        (self.0 * (1u64 << 32) as f64).round() as u64
    }
}

/// Fills `mask` with `1 / keep` where an element is kept and `0` where it is dropped.
///
/// Element `i` depends on `key` and `i` only.
pub fn fill_dropout_mask(key: StreamKey, keep: KeepProbability, mask: &mut [f32]) {
    let stream = key.open();
    let threshold = keep.threshold();
    let scale = (1.0 / keep.get()) as f32;
    mask.par_chunks_mut(CHUNK)
        .enumerate()
        .for_each(|(chunk, values)| {
            let first_block = (chunk * (CHUNK / 4)) as u64;
            for (block, values) in values.chunks_mut(4).enumerate() {
                let words = stream.block(first_block + block as u64);
                for (value, word) in values.iter_mut().zip(words) {
                    *value = if u64::from(word) < threshold {
                        scale
                    } else {
                        0.0
                    };
                }
            }
        });
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

/// As [`fill_dropout_mask`], for the elements of a larger tensor that `slice` names: they get the
/// values that they have in the whole tensor's mask.
pub fn fill_dropout_mask_slice(
    key: StreamKey,
    keep: KeepProbability,
    slice: RowSlice,
    mask: &mut [f32],
) {
    if slice.length == 0 {
        return;
    }
    let stream = key.open();
    let threshold = keep.threshold();
    let scale = (1.0 / keep.get()) as f32;
    let rows = mask.par_chunks_mut(slice.length).enumerate();
    rows.for_each(|(row, values)| {
        let begin = row * slice.whole + slice.first;
        let mut words = [0; 4];
        for (value, index) in values.iter_mut().zip(begin..) {
            let lane = index % 4;
            if lane == 0 || index == begin {
                words = stream.block((index / 4) as u64);
            }
            *value = if u64::from(words[lane]) < threshold {
                scale
            } else {
                0.0
            };
        }
    });
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
