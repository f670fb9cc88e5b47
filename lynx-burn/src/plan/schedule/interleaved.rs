//! Interleaved 1F1B: smaller bubbles for more transfers.
//!
//! After Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
//! Clusters Using Megatron-LM" (arXiv 2104.04473, section 2.2), and the order
//! of Megatron-LM's `core/pipeline_parallel/schedules.py`. Every stage holds
//! `v` chunks of the model, each `1/v` of its share. A stage takes the
//! micro-batches in groups of `p`, and each group through its first chunk, then
//! its second, and so on: by the time it has done `p` forwards of a chunk, the
//! first of them has been around the ring. The pipeline fills and drains in
//! steps of `1/v`, so the bubbles shrink to `1/v` of 1F1B's.

use super::{Action, ScheduleError, Shape, Unit};
use crate::ids::{ChunkId, MicroBatchId};

/// Refuses what cannot be dealt to groups, as Megatron-LM does.
pub(super) fn fits(shape: Shape, micro_batches: usize) -> Result<(), ScheduleError> {
    let Shape { stages, chunks } = shape;
    if stages > 0 && !micro_batches.is_multiple_of(stages) {
        return Err(ScheduleError::NotAMultiple {
            micro_batches,
            stages,
        });
    }
    // A stage's list has two actions for each; its bytes must have a number too.
    let bytes = micro_batches.checked_mul(chunks);
    let bytes = bytes.and_then(|units| units.checked_mul(2 * size_of::<Action>()));
    match bytes {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(ScheduleError::TooMany {
            micro_batches,
            chunks,
        }),
    }
}

/// The forwards of `stage` before its first backward, less the one of the
/// steady part, if there are enough: two for each stage behind it, and a group
/// for each chunk but the last.
pub(in crate::plan) fn warm_up(stage: usize, shape: Shape) -> usize {
    let Shape { stages, chunks } = shape;
    let behind = stages.saturating_sub(stage + 1);
    let groups = chunks.saturating_sub(1).saturating_mul(stages);
    behind.saturating_mul(2).saturating_add(groups)
}

/// The compute actions of `stage`, which is below the shape's stages, for counts
/// that [fit](fits).
pub(super) fn stage(stage: usize, shape: Shape, micro_batches: usize) -> Vec<Action> {
    let Shape { stages, chunks } = shape;
    let all = micro_batches * chunks;
    let warm_up = all.min(warm_up(stage, shape));
    let steady = all - warm_up;
    let forward = |k| {
        let (unit, chunk) = nth(k, shape);
        Action::Forward(unit.on(ChunkId(chunk)))
    };
    let backward = |k| {
        let (unit, chunk) = nth(k, shape);
        Action::Backward(unit.on(ChunkId(chunks - 1 - chunk)))
    };
    debug_assert!(stage < stages, "{stage} of {stages}");
    let mut actions: Vec<_> = (0..warm_up).map(forward).collect();
    actions.extend((0..steady).flat_map(|k| [forward(warm_up + k), backward(k)]));
    actions.extend((steady..all).map(backward));
    actions
}

/// The `k`th unit of a pass, with its place among the pass's chunks.
fn nth(k: usize, shape: Shape) -> (Unit, usize) {
    let Shape { stages, chunks } = shape;
    let (group, within) = (k / (stages * chunks), k % (stages * chunks));
    let micro_batch = MicroBatchId(group * stages + within % stages);
    (micro_batch.into(), within / stages)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::super::{Kind, ScheduleError};

    fn interleaved(chunks: usize) -> Kind {
        let chunks = NonZeroUsize::new(chunks).unwrap();
        Kind::Interleaved { chunks }
    }

    fn words(stages: usize, micro_batches: usize, stage: usize) -> String {
        let schedule = interleaved(2).generate(stages, micro_batches).unwrap();
        let words: Vec<_> = schedule.stages[stage]
            .iter()
            .map(|a| a.to_string())
            .collect();
        words.join(" ")
    }

    /// The lower half of figure 4 of the paper: four stages, eight micro-batches,
    /// two chunks.
    #[test]
    fn four_stages_with_two_chunks_follow_the_published_order() {
        assert_eq!(
            words(4, 8, 0),
            "F0 F1 F2 F3 F0.1 F1.1 F2.1 F3.1 F4 F5 \
             F6 B0.1 F7 B1.1 F4.1 B2.1 F5.1 B3.1 F6.1 B0 F7.1 B1 \
             B2 B3 B4.1 B5.1 B6.1 B7.1 B4 B5 B6 B7"
        );
        assert_eq!(
            words(4, 8, 3),
            "F0 F1 F2 F3 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4 B0 F5 B1 F6 B2 F7 B3 \
             F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4 B5 B6 B7"
        );
    }

    #[test]
    fn one_group_of_micro_batches_is_all_warm_up_on_the_first_stage() {
        assert_eq!(words(2, 2, 0), "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1");
    }

    #[test]
    fn with_one_chunk_it_is_1f1b() {
        let plain = Kind::OneFOneB.generate(3, 6).unwrap();
        assert_eq!(interleaved(1).generate(3, 6), Ok(plain));
    }

    #[test]
    fn a_count_that_is_no_multiple_of_the_stages_is_refused_with_both() {
        let error = interleaved(2).generate(4, 6).unwrap_err();
        let (micro_batches, stages) = (6, 4);
        let expected = ScheduleError::NotAMultiple {
            micro_batches,
            stages,
        };
        assert_eq!(error, expected);
        assert!(
            error
                .to_string()
                .ends_with("multiple of 4 micro-batches, got 6")
        );
    }

    #[test]
    fn counts_that_no_list_can_hold_are_refused() {
        let error = interleaved(usize::MAX).generate(1, 2).unwrap_err();
        assert!(matches!(error, ScheduleError::TooMany { .. }), "{error}");
        assert_eq!(interleaved(2).generate(0, 4), Err(ScheduleError::NoStages));
        assert_eq!(
            interleaved(2).generate(3, 0),
            Err(ScheduleError::NoMicroBatches)
        );
    }
}
