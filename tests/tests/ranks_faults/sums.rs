//! Ranks that hand over to a sum what cannot be summed.

use lynx_burn::ids::SegmentId;
use lynx_burn::{Cause, StageError};
use lynx_tests::shares::Trouble;

use super::{alone, assert_named, failure, stage_threads, troubled};

/// Retained, recomputed in groups that sums cut, and recomputed together with sums.
const POLICIES: [&str; 3] = ["retain", "recompute", "uniform:1"];

#[test]
fn a_segment_that_announces_a_sum_and_hands_on_no_part_is_named() {
    alone(|| {
        for policy in POLICIES {
            for (stages, segment, stage) in [(1, 3, 0), (2, 1, 0), (2, 5, 1)] {
                // By one rank alone: the other waits for it at the sum.
                for rank in [None, Some(0), Some(1)] {
                    let spec = troubled(segment, rank, Trouble::NothingSummed);
                    let found = failure(&spec, stages, policy);
                    assert_named(&found, stage, rank);
                    let segment = SegmentId(segment);
                    assert!(
                        matches!(&found.cause, Cause::Stage(StageError::NothingToSum { segment: s }) if *s == segment),
                        "{policy}: {found}"
                    );
                    assert_eq!(found.place.segment, Some(segment), "{found}");
                    assert_eq!(stage_threads(), 0, "every thread has ended");
                }
            }
        }
    });
}

/// In the middle of what runs as one too, where nobody would miss the sum.
#[test]
fn a_segment_that_hands_on_a_part_unannounced_is_named() {
    alone(|| {
        for policy in POLICIES {
            for (stages, segment, stage) in [(1, 2, 0), (2, 0, 0), (2, 6, 1)] {
                for rank in [None, Some(1)] {
                    let spec = troubled(segment, rank, Trouble::Unannounced);
                    let found = failure(&spec, stages, policy);
                    assert_named(&found, stage, rank);
                    let segment = SegmentId(segment);
                    assert!(
                        matches!(&found.cause, Cause::Stage(StageError::UnannouncedSum { segment: s }) if *s == segment),
                        "{policy}: {found}"
                    );
                    assert_eq!(stage_threads(), 0, "every thread has ended");
                }
            }
        }
    });
}

#[test]
fn ranks_that_hand_over_different_shapes_are_told_both() {
    alone(|| {
        for policy in POLICIES {
            for (stages, segment, stage) in [(1, 7, 0), (2, 3, 0), (2, 5, 1)] {
                for rank in [0, 1] {
                    let spec = troubled(segment, Some(rank), Trouble::RowLess);
                    let found = failure(&spec, stages, policy);
                    // All ranks see that they differ; none knows who is right.
                    assert_named(&found, stage, None);
                    let Cause::Stage(StageError::SumsDiffer {
                        expected,
                        found: other,
                    }) = &found.cause
                    else {
                        panic!("{policy}: {found}");
                    };
                    let mut shapes = [vec![vec![4, 8]], vec![vec![3, 8]]];
                    if rank == 0 {
                        shapes.reverse();
                    }
                    assert_eq!([expected.clone(), other.clone()], shapes);
                    assert_eq!(stage_threads(), 0, "every thread has ended");
                }
            }
        }
    });
}
