//! Oracles: a walk over every segment, and the sizes the stages were given.

use proptest::prelude::*;

use super::{Partition, PartitionError};
use crate::ids::{SegmentId, StageId};
use crate::plan::layout::{ChainLayout, Segment};

/// An embedding, `layers` layers of `parts` segments, a head.
fn chain(layers: usize, parts: usize) -> ChainLayout {
    let mut segments = vec![Segment::outside("embedding")];
    for layer in 0..layers {
        segments.extend((0..parts).map(|_| Segment::in_layer(layer, "part")));
    }
    segments.push(Segment::outside("head"));
    ChainLayout::new(segments).unwrap()
}

fn layers_on(layout: &ChainLayout, partition: &Partition, stage: usize) -> Vec<usize> {
    let mut layers: Vec<_> = partition
        .range(StageId(stage))
        .filter_map(|segment| layout.layer_of(segment))
        .collect();
    layers.dedup();
    layers
}

proptest! {
    /// Megatron-LM#1304 and mlx-lm#1688 lost the layers that did not divide.
    #[test]
    fn every_layer_is_on_exactly_one_stage(
        layers in 1usize..40, stages in 1usize..12, parts in 1usize..5,
    ) {
        let layout = chain(layers, parts);
        match Partition::even(&layout, stages) {
            Ok(partition) => {
                prop_assert!(stages <= layers);
                let dealt: Vec<_> = (0..stages)
                    .map(|stage| layers_on(&layout, &partition, stage))
                    .collect();
                prop_assert_eq!(dealt.concat(), (0..layers).collect::<Vec<_>>());
                let sizes = dealt.iter().map(Vec::len);
                prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
                prop_assert!(dealt.windows(2).all(|w| w[0].len() >= w[1].len()));
            }
            Err(error) => prop_assert_eq!(
                error,
                PartitionError::MoreStagesThanLayers { stages, layers }
            ),
        }
    }

    /// Oracle: walk over every segment and look where it went.
    #[test]
    fn ranges_cover_the_chain_in_order_and_stage_of_agrees(
        wanted in prop::collection::btree_set(1usize..20, 0..6),
    ) {
        let layout = chain(6, 3);
        let starts: Vec<_> = std::iter::once(0).chain(wanted).collect();
        let partition = Partition::from_starts(&layout, &starts).unwrap();
        let mut seen = 0;
        for (stage, range) in partition.ranges().enumerate() {
            prop_assert!(!range.is_empty());
            for segment in range {
                prop_assert_eq!(segment, seen);
                prop_assert_eq!(partition.stage_of(SegmentId(segment)), StageId(stage));
                seen += 1;
            }
        }
        prop_assert_eq!(seen, layout.len());
        let text = serde_json::to_string(&partition).unwrap();
        prop_assert_eq!(serde_json::from_str::<Partition>(&text).unwrap(), partition);
    }
}

#[test]
fn an_uneven_deal_keeps_its_counts_and_outside_segments_stay_with_the_layer_before() {
    let mut segments = chain(3, 2).segments().to_vec();
    segments.insert(3, Segment::outside("pooling"));
    let layout = ChainLayout::new(segments).unwrap();
    let partition = Partition::from_layers(&layout, &[1, 2]).unwrap();
    assert_eq!(layers_on(&layout, &partition, 0), [0]);
    assert_eq!(layers_on(&layout, &partition, 1), [1, 2]);
    assert_eq!(partition.stage_of(SegmentId(3)), StageId(0), "pooling");
    assert_eq!(partition.stage_of(SegmentId(8)), StageId(1), "head");
}

#[test]
fn a_chain_without_layers_is_dealt_by_segments() {
    let layout = ChainLayout::new(vec![Segment::outside("x"); 5]).unwrap();
    let partition = Partition::even(&layout, 2).unwrap();
    assert_eq!(partition.to_string(), "0..3 | 3..5");
}

#[test]
fn deals_that_lose_layers_or_leave_a_stage_idle_are_refused() {
    let layout = chain(4, 1);
    let given = |layers: &[usize]| Partition::from_layers(&layout, layers).unwrap_err();
    let stage = StageId(1);
    assert_eq!(given(&[]), PartitionError::NoStages);
    assert_eq!(given(&[4, 0]), PartitionError::EmptyStage { stage });
    for wrong in [&[1, 2][..], &[3, 2], &[usize::MAX, 5]] {
        let total = wrong.iter().fold(0, |a: usize, &b| a.saturating_add(b));
        let expected = PartitionError::LayerCount {
            given: total,
            layers: 4,
        };
        assert_eq!(given(wrong), expected);
    }
    assert_eq!(Partition::even(&layout, 0), Err(PartitionError::NoStages));
}

#[test]
fn starts_that_do_not_ascend_from_zero_within_the_chain_are_refused() {
    let layout = chain(4, 1);
    let cases: [(&[usize], usize, std::ops::Range<usize>); 4] = [
        (&[1, 2], 0, 0..1),
        (&[0, 2, 2], 2, 3..6),
        (&[0, 3, 1], 2, 4..6),
        (&[0, 6], 1, 1..6),
    ];
    for (starts, stage, allowed) in cases {
        let expected = PartitionError::BadStart {
            stage: StageId(stage),
            start: starts[stage],
            allowed,
        };
        assert_eq!(Partition::from_starts(&layout, starts), Err(expected));
    }
    let file = r#"{"starts":[0,9],"segments":6}"#;
    assert!(serde_json::from_str::<Partition>(file).is_err());
    assert!(serde_json::from_str::<Partition>(r#"{"starts":[0],"segments":0}"#).is_err());
}

#[test]
fn a_stage_that_does_not_exist_holds_nothing() {
    let partition = Partition::even(&chain(4, 1), 2).unwrap();
    assert!(partition.range(StageId(2)).is_empty());
    assert!(partition.range(StageId(usize::MAX)).is_empty());
}
