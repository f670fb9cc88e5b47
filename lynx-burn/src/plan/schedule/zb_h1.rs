//! ZB-H1: 1F1B whose bubbles are filled with gradients of weights.
//!
//! After Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241,
//! section 2.1, the hand-made schedule ZB-H1). A backward has two parts. The
//! stage before waits for the first (I: the gradient of the input) only; nobody
//! waits for the second (W: the gradients of the weights), so it can be put
//! off. What is put off stays in memory, and 1F1B leaves room for it: stage `s`
//! holds `p - s` micro-batches where stage 0 holds `p`. So stage `s` runs 1F1B
//! with its W `s` micro-batches behind its I. It never holds more than `p`; the
//! first gradients reach stage 0 sooner by all the W that are put off; and the
//! W that are left at the end fill the cool-down.

use super::Action;
use crate::ids::MicroBatchId;

/// The compute actions of `stage`, which is below `stages`.
pub(super) fn stage(stage: usize, stages: usize, micro_batches: usize) -> Vec<Action> {
    let forward = |mb| Action::Forward(MicroBatchId(mb).into());
    let input = |mb| Action::BackwardInput(MicroBatchId(mb).into());
    let weight = |mb| Action::BackwardWeight(MicroBatchId(mb).into());
    let warm_up = micro_batches.min(stages - 1 - stage);
    let behind = micro_batches.min(stage);
    let mut actions: Vec<_> = (0..warm_up).map(forward).collect();
    for mb in 0..micro_batches {
        let ahead = Some(mb + warm_up).filter(|ahead| *ahead < micro_batches);
        actions.extend(ahead.map(forward));
        actions.push(input(mb));
        actions.extend(mb.checked_sub(behind).map(weight));
    }
    actions.extend((micro_batches - behind..micro_batches).map(weight));
    actions
}

#[cfg(test)]
mod tests {
    use super::super::Kind;

    fn words(stages: usize, micro_batches: usize, stage: usize) -> String {
        let schedule = Kind::ZbH1.generate(stages, micro_batches).unwrap();
        let words: Vec<_> = schedule.stages[stage]
            .iter()
            .map(|a| a.to_string())
            .collect();
        words.join(" ")
    }

    #[test]
    fn weights_follow_at_once_on_the_first_stage_and_last_on_the_last() {
        assert_eq!(words(3, 4, 0), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
        assert_eq!(words(3, 4, 1), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
        assert_eq!(words(3, 4, 2), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
    }

    #[test]
    fn fewer_micro_batches_than_stages_put_every_weight_to_the_end_of_the_last_stage() {
        assert_eq!(words(4, 2, 0), "F0 F1 I0 W0 I1 W1");
        assert_eq!(words(4, 2, 3), "F0 I0 F1 I1 W0 W1");
        assert_eq!(words(1, 2, 0), "F0 I0 W0 F1 I1 W1");
    }
}
