//! Words and ends of actions.

use super::*;

const ALL: [fn(Unit) -> Action; 9] = [
    Forward,
    Backward,
    BackwardInput,
    BackwardWeight,
    SendForward,
    RecvForward,
    SendBackward,
    RecvBackward,
    ReduceGradients,
];

#[test]
fn every_word_reads_back_as_its_action() {
    let words = ["F3", "B3", "I3", "W3", "SF3", "RF3", "SB3", "RB3", "G3"];
    for (make, word) in ALL.iter().zip(words) {
        let unit = Unit::from(MicroBatchId(3));
        for (unit, word) in [
            (unit, word.to_owned()),
            (unit.on(ChunkId(1)), format!("{word}.1")),
        ] {
            let action = make(unit);
            assert_eq!(action.to_string(), word);
            assert_eq!(word.parse(), Ok(action));
            assert_eq!(serde_json::to_string(&action).unwrap(), format!("{word:?}"));
        }
    }
}

#[test]
fn words_that_are_no_action_are_refused_with_the_word() {
    for word in [
        "",
        "F",
        "3",
        "F-1",
        "f3",
        "FS3",
        "F3x",
        "F3.",
        "F.1",
        "SF 3",
        "F99999999999999999999",
    ] {
        let error = word.parse::<Action>().expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn the_two_ends_of_a_transfer_name_each_other() {
    for (stages, chunks) in [(3, 1), (1, 3), (2, 2), (3, 2)] {
        let shape = Shape { stages, chunks };
        let mut ends = 0;
        for (make, stage, chunk) in ALL.iter().flat_map(|make| {
            let stages = (0..stages).map(StageId);
            stages.flat_map(move |s| (0..chunks).map(move |c| (make, s, ChunkId(c))))
        }) {
            let action = make(Unit::from(MicroBatchId(1)).on(chunk));
            let Some((peer, partner)) = action.other_end(stage, shape) else {
                continue;
            };
            ends += 1;
            assert_ne!(peer, stage);
            assert_ne!(partner.is_send(), action.is_send());
            assert_eq!(partner.is_forward(), action.is_forward());
            assert_eq!(partner.other_end(peer, shape), Some((stage, action)));
        }
        // Both ends of both directions of every passage from one chunk to the next.
        let passages = if stages == 1 { 0 } else { stages * chunks - 1 };
        assert_eq!(ends, 4 * passages);
    }
}

#[test]
fn a_boundary_that_leaves_the_last_stage_goes_to_the_next_chunk_of_the_first() {
    let shape = Shape {
        stages: 4,
        chunks: 2,
    };
    let read = |word: &str| word.parse::<Action>().unwrap();
    let ends = |word, stage| read(word).other_end(StageId(stage), shape);
    assert_eq!(ends("SF5", 3), Some((StageId(0), read("RF5.1"))));
    assert_eq!(ends("SB5.1", 0), Some((StageId(3), read("RB5"))));
    assert_eq!(ends("SF5.1", 2), Some((StageId(3), read("RF5.1"))));
    assert_eq!(ends("SF5.1", 3), None);
    assert_eq!(ends("SB5", 0), None);
}

/// A thousand stages with thousands of micro-batches have tens of millions.
#[test]
fn an_action_takes_no_more_than_its_two_numbers_and_a_byte() {
    assert_eq!(size_of::<Action>(), 2 * size_of::<usize>() + 1);
}
