//! Vectors of numbers of which none is less in all than another.
//!
//! The numbers of all vectors lie one after the other, because there are many and comparing them
//! is nearly all that a search does. What they mean is for `front` to say.

use std::time::{Duration, Instant};

use super::space::pair;

/// Where a vector is from.
#[derive(Clone, Copy, Default)]
pub(super) struct Tag {
    /// Four bits for each segment.
    pub(super) choices: u128,
    /// The place of the last choice in [`ALL`](super::sums::ALL).
    pub(super) last: usize,
    /// What they cost at some prices.
    pub(super) cost: f64,
    /// The same with the cheapest end.
    pub(super) whole: f64,
}

/// The choices of some first segments, and their measures.
pub(super) struct Skyline {
    /// How many numbers each has.
    stride: usize,
    tags: Vec<Tag>,
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
            tags: vec![Tag::default()],
            keys: vec![0; stride],
        }
    }

    fn key(&self, index: usize) -> &[u64] {
        &self.keys[index * self.stride..(index + 1) * self.stride]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Tag, &[u64])> {
        self.tags.iter().zip(self.keys.chunks_exact(self.stride))
    }

    /// Adds one whose numbers are all there.
    pub(super) fn push_if(&mut self, tag: Tag, number: impl Fn(usize) -> Option<u64>) {
        let start = self.keys.len();
        for at in 0..self.stride {
            match number(at) {
                Some(number) => self.keys.push(number),
                None => return self.keys.truncate(start),
            }
        }
        self.tags.push(tag);
    }

    /// Those that no other makes superfluous. `covers` tells, by both last choices ([`pair`]),
    /// whether to go on from one never adds more than from another. `None` if there was no time.
    pub(super) fn undominated(&self, covers: &[bool], until: Option<Instant>) -> Option<Self> {
        let mut order: Vec<usize> = (0..self.tags.len()).collect();
        // Sorting cannot be broken off: about a microsecond each.
        let sorting = Duration::from_micros(order.len() as u64);
        if until.is_some_and(|until| Instant::now() + sorting > until) {
            return None;
        }
        // Sorted by all numbers: one can only be superfluous because of one before it.
        order.sort_unstable_by(|&a, &b| self.key(a).cmp(self.key(b)));
        let mut kept: Vec<usize> = Vec::new();
        for (done, &index) in order.iter().enumerate() {
            if done % 64 == 0 && until.is_some_and(|until| Instant::now() > until) {
                return None;
            }
            let (key, last) = (self.key(index), self.tags[index].last);
            let less = |&known: &usize| {
                covers[pair(self.tags[known].last, last)]
                    && self.key(known).iter().zip(key).all(|(a, b)| a <= b)
            };
            match kept.iter().position(less) {
                // What made one superfluous is likely to do so again: it is looked at earlier.
                Some(at) => kept.swap(at, at / 2),
                None => kept.push(index),
            }
        }
        Some(self.only(&kept))
    }

    /// Keeps the cheapest with their ends, the fastest and the thriftiest; whether there were more.
    pub(super) fn narrow(&mut self, width: usize) -> bool {
        let mut order: Vec<usize> = (0..self.tags.len()).collect();
        if order.len() <= width {
            return false;
        }
        order.sort_unstable_by(|&a, &b| self.tags[a].whole.total_cmp(&self.tags[b].whole));
        let cheap = order.len().min(width / 2);
        let slow = &mut order[cheap..];
        slow.sort_unstable_by_key(|&index| (self.key(index)[0], self.key(index)[1]));
        let slow = &mut slow[width / 4..];
        slow.sort_unstable_by_key(|&index| (self.key(index)[1], self.key(index)[0]));
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
