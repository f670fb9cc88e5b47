//! Oracles: the choice of every segment straight from the words of the docs,
//! and groups found by asking for every pair of neighbours whether they belong
//! together.

use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::{Choice, Policy, PolicyError, Run};
use crate::ids::{SegmentId, StageId};
use crate::plan::layout::{ChainLayout, Segment};
use crate::plan::partition::Partition;

const NAMES: [&str; 3] = ["qkv", "attention", "mlp"];

fn nonzero(k: usize) -> NonZeroUsize {
    NonZeroUsize::new(k).unwrap()
}

/// An embedding, layers of three segments, a segment outside after layer 0, a head.
fn chain(layers: usize) -> ChainLayout {
    let mut segments = vec![Segment::outside("embedding")];
    for layer in 0..layers {
        segments.extend(NAMES.map(|name| match name {
            "attention" => Segment::in_layer(layer, name).summed(),
            name => Segment::in_layer(layer, name),
        }));
        if layer == 0 {
            segments.push(Segment::outside("adapter"));
        }
    }
    segments.push(Segment::outside("head"));
    ChainLayout::new(segments).unwrap()
}

fn runs(policy: &Policy, layout: &ChainLayout, partition: &Partition) -> Vec<Vec<Run>> {
    let stages = policy.resolve(layout, partition).unwrap();
    stages.iter().map(|stage| stage.runs().to_vec()).collect()
}

#[derive(Clone, Debug)]
struct Case {
    layout: ChainLayout,
    partition: Partition,
    policy: Policy,
}

fn cases() -> impl Strategy<Value = Case> {
    let cuts = prop::collection::btree_set(1usize..18, 0..4);
    use Choice::{Recompute, Replay, Restart, Retain};
    let choice = prop::sample::select(vec![Retain, Recompute, Restart, Replay]);
    let by_hand = prop::collection::vec(choice, 18);
    let wanted = prop::sample::subsequence(vec!["qkv", "attention", "mlp", "head"], 0..=4);
    let sums = any::<bool>();
    (1usize..6, cuts, 0usize..6, 1usize..5, by_hand, wanted, sums).prop_map(
        |(layers, cuts, kind, k, choices, wanted, sums)| {
            let layout = match chain(layers) {
                layout if sums => layout,
                layout => layout.without_collectives(),
            };
            let within = cuts.into_iter().filter(|&cut| cut < layout.len());
            let starts: Vec<_> = std::iter::once(0).chain(within).collect();
            let partition = Partition::from_starts(&layout, &starts).unwrap();
            let policy = match kind {
                0 => Policy::RetainAll,
                1 => Policy::RecomputeAll,
                2 => Policy::EveryKth(nonzero(k)),
                3 => Policy::Uniform(nonzero(k)),
                4 => Policy::Selective(wanted.into_iter().map(str::to_owned).collect()),
                _ => Policy::ByHand(by_hand_of(&partition, &choices)),
            };
            Case {
                layout,
                partition,
                policy,
            }
        },
    )
}

/// Choices over and over again; what cannot be replayed restarts.
fn by_hand_of(partition: &Partition, choices: &[Choice]) -> Vec<Vec<Choice>> {
    let stage = |range: std::ops::Range<usize>| {
        let mut stage: Vec<Choice> = range.map(|s| choices[s % choices.len()]).collect();
        for at in 0..stage.len() {
            let before = at.checked_sub(1).map_or(Choice::Retain, |at| stage[at]);
            if stage[at] == Choice::Replay && before == Choice::Retain {
                stage[at] = Choice::Restart;
            }
        }
        stage
    };
    partition.ranges().map(stage).collect()
}

fn is_recomputed(case: &Case, segment: usize) -> bool {
    let Segment { name, layer, .. } = &case.layout.segments()[segment];
    match &case.policy {
        Policy::RetainAll => false,
        Policy::RecomputeAll | Policy::Uniform(_) => true,
        Policy::EveryKth(k) => (0..9).any(|n| *layer == Some(n * k.get())),
        Policy::Selective(names) => names.iter().any(|n| n == name),
        Policy::ByHand(stages) => stages.concat()[segment] != Choice::Retain,
    }
}

/// Whether a segment and the next one are in one group, both being recomputed.
fn belong_together(case: &Case, segment: usize) -> bool {
    let layer = |segment: usize| case.layout.segments()[segment].layer;
    let range = |s: usize| case.partition.ranges().find(|r| r.contains(&s)).unwrap();
    let same_stage = range(segment) == range(segment + 1);
    if let Policy::ByHand(stages) = &case.policy {
        match stages.concat()[segment + 1] {
            Choice::Replay => return same_stage,
            Choice::Restart => return false,
            Choice::Retain | Choice::Recompute => {}
        }
    }
    let repeats = matches!(case.policy, Policy::Uniform(_));
    if case.layout.segments()[segment].summed && !repeats {
        return false;
    }
    let (Some(left), Some(right)) = (layer(segment), layer(segment + 1)) else {
        return false;
    };
    let together = match &case.policy {
        Policy::Uniform(k) => {
            // Walk over the stage's layers and start a new group after every k of them.
            let mut layers: Vec<_> = range(segment).filter_map(layer).collect();
            layers.dedup();
            let groups = layers.chunks(k.get());
            groups
                .into_iter()
                .any(|g| g.contains(&left) && g.contains(&right))
        }
        _ => left == right,
    };
    same_stage && together
}

proptest! {
    #[test]
    fn runs_cover_every_stage_once_in_order_and_choose_as_the_words_say(case in cases()) {
        let stages = case.policy.resolve(&case.layout, &case.partition).unwrap();
        prop_assert_eq!(stages.len(), case.partition.stages());
        for (range, stage) in case.partition.ranges().zip(&stages) {
            let covered: Vec<_> = stage.runs().iter().flat_map(Run::range).collect();
            prop_assert_eq!(covered, range.clone().collect::<Vec<_>>());
            let expected: Vec<_> = range.clone().filter(|&s| is_recomputed(&case, s)).collect();
            prop_assert_eq!(stage.recomputed().collect::<Vec<_>>(), expected);
            for segment in 0..case.layout.len() {
                let expected = range.contains(&segment).then(|| match is_recomputed(&case, segment) {
                    true => Choice::Recompute,
                    false => Choice::Retain,
                });
                prop_assert_eq!(stage.choice(segment), expected);
            }
        }
    }

    #[test]
    fn neighbours_share_a_group_exactly_when_they_belong_together(case in cases()) {
        let all = runs(&case.policy, &case.layout, &case.partition).concat();
        for segment in 0..case.layout.len() - 1 {
            let pair = [segment, segment + 1];
            let shared = all.iter().any(|run| pair.iter().all(|s| run.range().contains(s)));
            let recomputed = pair.iter().all(|&s| is_recomputed(&case, s));
            prop_assert_eq!(shared, recomputed && belong_together(&case, segment), "{}", segment);
        }
    }
}

#[test]
fn uniform_counts_layers_from_the_first_of_the_stage() {
    let layout = ChainLayout::new((0..6).map(|l| Segment::in_layer(l, "all")).collect()).unwrap();
    let partition = Partition::from_layers(&layout, &[1, 5]).unwrap();
    let found = runs(&Policy::Uniform(nonzero(2)), &layout, &partition);
    let groups = |ranges: &[(usize, usize)]| -> Vec<Run> {
        ranges.iter().map(|&(a, b)| Run::Recompute(a..b)).collect()
    };
    assert_eq!(
        found,
        [groups(&[(0, 1)]), groups(&[(1, 3), (3, 5), (5, 6)])]
    );
}

#[test]
fn an_unknown_name_is_refused_with_every_known_name_once() {
    let layout = chain(2);
    let partition = Partition::even(&layout, 2).unwrap();
    let policy = Policy::Selective(vec!["mlp".to_owned(), "atention".to_owned()]);
    let known = ["embedding", "qkv", "attention", "mlp", "adapter", "head"];
    let expected = PolicyError::UnknownSegment {
        name: "atention".to_owned(),
        known: known.map(str::to_owned).to_vec(),
    };
    assert_eq!(policy.resolve(&layout, &partition), Err(expected));
}

#[test]
fn choices_by_hand_must_fit_stages_and_segments() {
    let layout = chain(1);
    let partition = Partition::from_starts(&layout, &[0, 4]).unwrap();
    let resolve = |counts: &[usize]| {
        let stage = |&n: &usize| vec![Choice::Retain; n];
        Policy::ByHand(counts.iter().map(stage).collect()).resolve(&layout, &partition)
    };
    assert!(resolve(&[4, 2]).is_ok());
    let (given, stages) = (1, 2);
    assert_eq!(
        resolve(&[6]),
        Err(PolicyError::StageCount { given, stages })
    );
    let wrong = PolicyError::SegmentCount {
        stage: StageId(1),
        given: 3,
        segments: 2,
    };
    assert_eq!(resolve(&[4, 3]), Err(wrong));
}

#[test]
fn a_replay_behind_a_kept_segment_or_at_the_beginning_of_a_stage_is_refused() {
    let layout = chain(1);
    let partition = Partition::even(&layout, 1).unwrap();
    for (text, segment) in [("hand:KJRRRR", 1), ("hand:JRRRRR", 0), ("hand:RJKRJJ", 6)] {
        let found = text.parse::<Policy>().unwrap().resolve(&layout, &partition);
        let expected = (segment < 6).then_some(PolicyError::NothingToReplay {
            segment: SegmentId(segment),
        });
        assert_eq!(found.err(), expected, "{text}");
    }
}

#[test]
fn a_partition_of_another_chain_is_refused() {
    let partition = Partition::even(&chain(3), 2).unwrap();
    let expected = PolicyError::OtherChain {
        partition: 12,
        layout: 9,
    };
    let refused = Policy::RetainAll.resolve(&chain(2), &partition);
    assert_eq!(refused, Err(expected));
}
