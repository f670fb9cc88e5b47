//! Vectors of numbers of which none is less in all than another.
//!
//! The numbers of all vectors lie one after the other, because there are many and comparing them
//! is nearly all that a search does. What they mean is for `front` to say.

use std::time::Instant;

use super::space::pair;

/// The choices of some first segments, and their measures.
pub(super) struct Skyline {
    /// How many numbers each has.
    stride: usize,
    /// Four bits for each segment, and the place of the last choice in [`ALL`].
    tags: Vec<(u128, usize)>,
    keys: Vec<u64>,
}

impl Skyline {
    pub(super) fn new(stride: usize) -> Self {
        Self {
            stride,
            tags: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// No choice, for no segment.
    pub(super) fn start(stride: usize) -> Self {
        Self {
            stride,
            tags: vec![(0, 0)],
            keys: vec![0; stride],
        }
    }

    fn key(&self, index: usize) -> &[u64] {
        &self.keys[index * self.stride..(index + 1) * self.stride]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u128, usize, &[u64])> {
        let tags = self.tags.iter().zip(self.keys.chunks_exact(self.stride));
        tags.map(|(&(choices, last), key)| (choices, last, key))
    }

    /// Adds one whose numbers are all there.
    pub(super) fn push_if(
        &mut self,
        choices: u128,
        last: usize,
        number: impl Fn(usize) -> Option<u64>,
    ) {
        let start = self.keys.len();
        for at in 0..self.stride {
            match number(at) {
                Some(number) => self.keys.push(number),
                None => return self.keys.truncate(start),
            }
        }
        self.tags.push((choices, last));
    }

    /// Those that no other makes superfluous, even with the `penalty` for going on from the
    /// other's last choice (by both places in [`ALL`]; empty for none). `None` if there was no
    /// time.
    pub(super) fn undominated(&self, penalty: &[Vec<u64>], until: Option<Instant>) -> Option<Self> {
        let mut order: Vec<usize> = (0..self.tags.len()).collect();
        // Sorted by all numbers: one can only be superfluous because of one before it.
        order.sort_unstable_by(|&a, &b| self.key(a).cmp(self.key(b)));
        let mut kept: Vec<usize> = Vec::new();
        for (done, &index) in order.iter().enumerate() {
            if done % 64 == 0 && until.is_some_and(|until| Instant::now() > until) {
                return None;
            }
            let (key, last) = (self.key(index), self.tags[index].1);
            let less = |&known: &usize| {
                let penalty = &penalty[pair(self.tags[known].1, last)];
                let known = self.key(known).iter().zip(key);
                if penalty.is_empty() {
                    return known.clone().all(|(a, b)| a <= b);
                }
                let mut known = known.zip(penalty);
                known.all(|((a, b), more)| a + more <= *b)
            };
            match kept.iter().position(less) {
                // What made one superfluous is likely to do so again: it is looked at earlier.
                Some(at) => kept.swap(at, at / 2),
                None => kept.push(index),
            }
        }
        Some(self.only(&kept))
    }

    /// Keeps the fastest and the thriftiest; whether there were more.
    pub(super) fn narrow(&mut self, width: usize) -> bool {
        let mut order: Vec<usize> = (0..self.tags.len()).collect();
        if order.len() <= width {
            return false;
        }
        order.sort_unstable_by_key(|&index| (self.key(index)[0], self.key(index)[1]));
        order[width / 2..].sort_unstable_by_key(|&index| (self.key(index)[1], self.key(index)[0]));
        *self = self.only(&order[..width]);
        true
    }

    fn only(&self, kept: &[usize]) -> Self {
        let keys = kept
            .iter()
            .flat_map(|&index| self.key(index).iter().copied());
        Self {
            stride: self.stride,
            tags: kept.iter().map(|&index| self.tags[index]).collect(),
            keys: keys.collect(),
        }
    }
}
