//! The book of retained bytes of one stage.
//!
//! An entry is what one micro-batch keeps on the stage between its forward and its backward:
//! boundaries and tapes. It changes by what the meter says each action allocated and did not
//! free, plus what arrived from another thread, less what went to one. Gradients and workspace are
//! not activations and are not in the book.

use std::collections::BTreeMap;

use crate::ids::MicroBatchId;
use crate::units::Bytes;

/// Retained bytes by micro-batch, and the most they ever were.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<MicroBatchId, i64>,
    current: i64,
    peak: i64,
    /// Where the watch began, and the most bytes since then.
    watch: (i64, i64),
}

impl Ledger {
    /// Changes what a micro-batch keeps.
    pub(crate) fn book(&mut self, micro_batch: MicroBatchId, change: i64) {
        *self.entries.entry(micro_batch).or_default() += change;
        self.current += change;
        self.peak = self.peak.max(self.current);
        self.watch.1 = self.watch.1.max(self.current);
    }

    /// Begins to watch how much is added.
    pub(crate) fn watch(&mut self) {
        self.watch = (self.current, self.current);
    }

    /// The most that was added since [`watch`](Self::watch) at one time, whether it stayed or not.
    pub(crate) fn watched_growth(&self) -> i64 {
        self.watch.1 - self.watch.0
    }

    /// The micro-batch keeps nothing any more.
    pub(crate) fn close(&mut self, micro_batch: MicroBatchId) {
        self.current -= self.entries.remove(&micro_batch).unwrap_or(0);
    }

    /// Begins a new peak.
    pub(crate) fn reset_peak(&mut self) {
        self.peak = self.current;
    }

    pub(crate) fn current(&self) -> Bytes {
        Bytes(self.current.max(0) as u64)
    }

    pub(crate) fn peak(&self) -> Bytes {
        Bytes(self.peak.max(0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_sees_the_highest_rise_and_not_what_is_left_of_it() {
        let mut ledger = Ledger::default();
        ledger.book(MicroBatchId(0), 1000);
        ledger.watch();
        for change in [-10, 60, -40, 20] {
            ledger.book(MicroBatchId(1), change);
        }
        assert_eq!(
            (ledger.watched_growth(), ledger.current()),
            (50, Bytes(1030))
        );
    }

    #[test]
    fn the_peak_is_the_largest_sum_and_a_closed_entry_leaves_nothing() {
        let (a, b) = (MicroBatchId(0), MicroBatchId(1));
        let mut ledger = Ledger::default();
        ledger.book(a, 100);
        ledger.book(b, 50);
        ledger.book(a, -30);
        assert_eq!((ledger.current(), ledger.peak()), (Bytes(120), Bytes(150)));
        ledger.close(a);
        assert_eq!(ledger.current(), Bytes(50));
        ledger.reset_peak();
        ledger.book(b, 1);
        ledger.close(b);
        assert_eq!((ledger.current(), ledger.peak()), (Bytes(0), Bytes(51)));
    }
}
