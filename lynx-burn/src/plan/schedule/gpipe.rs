//! GPipe: all forwards, then all backwards.
//!
//! The simplest order, and the one that holds the most: every stage keeps all
//! micro-batches at once. It is here as the baseline that 1F1B is compared to.

use super::{Action, Unit};
use crate::ids::MicroBatchId;

/// The compute actions of any stage. Backwards ascend, unlike in the paper's
/// figure, because gradients are added up in ascending order of micro-batches
/// whatever the schedule; the step takes the same time.
pub(super) fn stage(micro_batches: usize) -> Vec<Action> {
    let all = || (0..micro_batches).map(|mb| Unit::from(MicroBatchId(mb)));
    let forwards = all().map(Action::Forward);
    forwards.chain(all().map(Action::Backward)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Kind};

    #[test]
    fn no_backward_comes_before_a_forward_and_both_ascend() {
        for (p, m) in [(1, 1), (3, 5), (5, 2)] {
            for actions in Kind::GPipe.generate(p, m).unwrap().stages {
                let (forwards, backwards) = actions.split_at(m);
                assert!(forwards.iter().all(|a| a.is_forward()));
                assert!(backwards.iter().all(|a| matches!(a, Action::Backward(_))));
                for half in [forwards, backwards] {
                    assert!(half.is_sorted());
                    assert_eq!(half.len(), m);
                }
            }
        }
    }
}
