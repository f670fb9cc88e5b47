//! Schedules as text, there and back.

use proptest::prelude::*;

use super::super::{Action, Schedule, Unit};
use crate::ids::{ChunkId, MicroBatchId};

/// Any lists of actions at all: the text must not care whether they are sound.
fn schedules() -> impl Strategy<Value = Schedule> {
    let kinds = prop::sample::select(vec![
        Action::Forward as fn(Unit) -> Action,
        Action::Backward,
        Action::BackwardInput,
        Action::BackwardWeight,
        Action::SendForward,
        Action::RecvForward,
        Action::SendBackward,
        Action::RecvBackward,
    ]);
    let chunk = || prop_oneof![Just(0), Just(1), any::<usize>()];
    let action = (kinds, any::<usize>(), chunk());
    let action =
        action.prop_map(|(kind, mb, chunk)| kind(Unit::from(MicroBatchId(mb)).on(ChunkId(chunk))));
    let stages = prop::collection::vec(prop::collection::vec(action, 0..6), 0..4);
    let parts = (any::<usize>(), chunk(), stages);
    parts.prop_map(|(micro_batches, chunks, stages)| Schedule {
        micro_batches,
        chunks,
        stages,
    })
}

proptest! {
    #[test]
    fn every_schedule_reads_back_from_its_text_and_from_a_file(schedule in schedules()) {
        prop_assert_eq!(&schedule.to_string().parse::<Schedule>().unwrap(), &schedule);
        let file = serde_json::to_string(&schedule).unwrap();
        prop_assert_eq!(serde_json::from_str::<Schedule>(&file).unwrap(), schedule);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(schedule |stage |[pmv]=|[0-9]|[FBIWSR]|[.:#\n ]){0,20}") {
        let _ = text.parse::<Schedule>();
    }
}

#[test]
fn comments_and_blank_lines_mean_nothing() {
    let text = "# by hand\n\n schedule p=2  m=1 # small\n\nstage 0:\tF0\n#\nstage 1: # idle\n\n";
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(
        schedule.to_string(),
        "schedule p=2 m=1\nstage 0: F0\nstage 1:"
    );
}

#[test]
fn a_file_holds_one_line_of_words_per_stage() {
    let schedule: Schedule = "schedule p=1 m=2\nstage 0: F0 B0 F1 B1".parse().unwrap();
    let file = serde_json::to_string(&schedule).unwrap();
    assert_eq!(file, r#"{"micro_batches":2,"stages":["F0 B0 F1 B1"]}"#);
    let chunks: Schedule = "schedule p=1 m=1 v=2\nstage 0: F0 F0.1".parse().unwrap();
    let with_chunks = r#"{"micro_batches":1,"chunks":2,"stages":["F0 F0.1"]}"#;
    assert_eq!(serde_json::to_string(&chunks).unwrap(), with_chunks);
    let broken = file.replace("F1", "X1");
    let error = serde_json::from_str::<Schedule>(&broken).unwrap_err();
    assert!(error.to_string().contains("X1"), "{error}");
}

#[test]
fn an_error_names_the_line_and_the_word() {
    let cases = [
        ("", 1, ""),
        ("plan p=1 m=1", 1, "plan"),
        ("schedule p=1", 1, ""),
        ("schedule m=1 p=1", 1, "m=1"),
        ("schedule p=x m=1", 1, "p=x"),
        ("schedule p=1 m=1 v=two\nstage 0:", 1, "v=two"),
        ("schedule p=1 m=1 w=2\nstage 0:", 1, "w=2"),
        ("schedule p=1 m=1 v=2 v=2\nstage 0:", 1, "v=2"),
        ("schedule p=1 m=1\nstage 0: F0.x", 2, "F0.x"),
        ("schedule p=2 m=1\nstage 0: F0\n", 3, ""),
        ("schedule p=99999999999 m=1\nstage 0: F0\n# end", 4, ""),
        ("schedule p=2 m=1\nstage 1: F0", 2, "1:"),
        ("schedule p=1 m=1\n\nstage 0: F0 b0", 3, "b0"),
        ("schedule p=1 m=1\nstage 0: F0\nstage 1: F0", 3, "stage"),
    ];
    for (text, line, word) in cases {
        let error = text.parse::<Schedule>().expect_err(text);
        assert_eq!((error.line, error.found.as_str()), (line, word), "{text:?}");
    }
}
