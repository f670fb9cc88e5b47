//! 1F1B: as few micro-batches in flight as a pipeline allows.
//!
//! A stage runs just enough forwards to keep the stages after it busy (warm-up),
//! then one forward and one backward in turn (steady), then the backwards that
//! are left (cool-down). Stage `s` of `p` so holds at most `min(m, p - s)`
//! micro-batches, however many the step has.

use super::Action;
use crate::ids::MicroBatchId;

/// The compute actions of `stage`, which is below `stages`.
pub(super) fn stage(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    let forward = |mb| Action::Forward(MicroBatchId(mb).into());
    let backward = |mb| Action::Backward(MicroBatchId(mb).into());
    // One forward for each stage behind this one; the first forward of the
    // steady part makes it `p - s`. Few micro-batches end the warm-up early.
    let warm_up = micro_batches.min(stages - 1 - stage);
    let steady = micro_batches - warm_up;
    let mut actions: Vec<_> = (0..warm_up).map(forward).collect();
    actions.extend((0..steady).flat_map(|i| [forward(warm_up + i), backward(i)]));
    actions.extend((steady..micro_batches).map(backward));
    actions
}

#[cfg(test)]
mod tests {
    use super::super::Kind;

    fn words(stages: usize, micro_batches: usize, stage: usize) -> String {
        let schedule = Kind::OneFOneB.generate(stages, micro_batches).unwrap();
        let words: Vec<_> = schedule.stages[stage]
            .iter()
            .map(|a| a.to_string())
            .collect();
        words.join(" ")
    }

    /// Figure 4 of "Efficient Large-Scale Language Model Training on GPU
    /// Clusters Using Megatron-LM": four stages, eight micro-batches.
    #[test]
    fn four_stages_and_eight_micro_batches_follow_the_published_order() {
        assert_eq!(
            words(4, 8, 0),
            "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7"
        );
        assert_eq!(
            words(4, 8, 3),
            "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"
        );
    }

    #[test]
    fn the_first_stage_warms_up_with_three_forwards_and_then_alternates() {
        let schedule = Kind::OneFOneB.generate(4, 8).unwrap();
        let (warm_up, rest) = schedule.stages[0].split_at(3);
        assert!(warm_up.iter().all(|a| a.is_forward()));
        for pair in rest[..10].chunks(2) {
            assert!(pair[0].is_forward() && !pair[1].is_forward(), "{pair:?}");
        }
        assert!(rest[10..].iter().all(|a| !a.is_forward()));
    }

    #[test]
    fn fewer_micro_batches_than_stages_leave_no_steady_part_on_the_first_stage() {
        assert_eq!(words(4, 2, 0), "F0 F1 B0 B1");
        assert_eq!(words(4, 1, 0), "F0 B0");
        assert_eq!(words(1, 2, 0), "F0 B0 F1 B1");
    }
}
