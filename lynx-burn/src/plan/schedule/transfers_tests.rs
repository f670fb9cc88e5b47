//! Where transfers are put, and what cannot be laid out.

use super::super::tests::KINDS;
use super::super::{Kind, Schedule, ScheduleError, Waiting, forward_only};
use super::{Action, compute_only, eager, rendezvous};
use crate::ids::StageId;

fn read(text: &str) -> Schedule {
    text.parse().unwrap()
}

#[test]
fn eager_wraps_every_compute_in_its_transfers() {
    let schedule = eager(&forward_only(3, 1).unwrap());
    let expected = "schedule p=3 m=1\nstage 0: F0 SF0\nstage 1: RF0 F0 SF0\nstage 2: RF0 F0";
    assert_eq!(schedule, read(expected));
}

#[test]
fn passes_keep_the_compute_order_and_replace_each_others_transfers() {
    for kind in KINDS {
        for (p, m) in [(1, 3), (2, 1), (4, 7), (5, 3), (3, 6)] {
            let Ok(plain) = kind.generate(p, m) else {
                continue;
            };
            let (early, late) = (eager(&plain), rendezvous(&plain).unwrap());
            for with in [&early, &late] {
                for (before, after) in plain.stages.iter().zip(&with.stages) {
                    assert_eq!(&compute_only(after).collect::<Vec<_>>(), before);
                }
            }
            assert_eq!(eager(&late), early);
            assert_eq!(rendezvous(&early).unwrap(), late);
        }
    }
}

#[test]
fn one_stage_needs_no_transfer() {
    let plain = Kind::OneFOneB.generate(1, 4).unwrap();
    assert_eq!(eager(&plain), plain);
    assert_eq!(rendezvous(&plain), Ok(plain));
    let kind: Kind = "interleaved:3".parse().unwrap();
    let chunks = kind.generate(1, 2).unwrap();
    assert_eq!(eager(&chunks), chunks);
    assert_eq!(rendezvous(&chunks), Ok(chunks));
}

#[test]
fn a_boundary_goes_around_the_ring_and_a_gradient_back_before_its_weights() {
    let plain = read(
        "schedule p=2 m=1 v=2\n\
         stage 0: F0 F0.1 I0.1 W0.1 B0\n\
         stage 1: F0 F0.1 B0.1 I0 W0",
    );
    let expected = "schedule p=2 m=1 v=2\n\
                    stage 0: F0 SF0 RF0.1 F0.1 SF0.1 RB0.1 I0.1 SB0.1 W0.1 RB0 B0\n\
                    stage 1: RF0 F0 SF0 RF0.1 F0.1 B0.1 SB0.1 RB0 I0 SB0 W0";
    assert_eq!(eager(&plain), read(expected));
    let late = "schedule p=2 m=1 v=2\n\
                stage 0: F0 SF0 RF0.1 F0.1 SF0.1 RB0.1 I0.1 W0.1 SB0.1 RB0 B0\n\
                stage 1: RF0 F0 SF0 RF0.1 F0.1 B0.1 SB0.1 RB0 I0 W0 SB0";
    let found = rendezvous(&plain).unwrap();
    for (found, late) in found.stages.iter().zip(&read(late).stages) {
        let sorted = |actions: &[Action]| {
            let mut sorted = actions.to_vec();
            sorted.sort();
            sorted
        };
        assert_eq!(sorted(found), sorted(late));
    }
    assert_eq!(eager(&found), read(expected));
}

#[test]
fn a_circle_names_the_part_of_a_backward_that_stands_in_the_list() {
    let circle = read("schedule p=2 m=1\nstage 0: F0 I0 W0\nstage 1: W0 F0 I0");
    let error = rendezvous(&circle).unwrap_err().to_string();
    let words = "stage 0 at I0 waits for I0 of stage 1; stage 1 at W0 waits for I0 of stage 1";
    assert!(error.ends_with(words), "{error}");
}

#[test]
fn a_circle_of_compute_actions_is_refused_with_everyone_in_it() {
    let circle = read("schedule p=2 m=2\nstage 0: F1 B0 F0 B1\nstage 1: F0 B0 F1 B1");
    let action = |word: &str| word.parse::<Action>().unwrap();
    let wait = |stage, at, peer, awaits| Waiting {
        stage: StageId(stage),
        action: action(at),
        peer: StageId(peer),
        awaits: action(awaits),
    };
    let waiting = vec![wait(0, "B0", 1, "B0"), wait(1, "F0", 0, "F0")];
    let error = ScheduleError::Circular { waiting };
    assert_eq!(rendezvous(&circle), Err(error.clone()));
    let words = "stage 0 at B0 waits for B0 of stage 1; stage 1 at F0 waits for F0 of stage 0";
    assert!(error.to_string().ends_with(words), "{error}");
}

#[test]
fn a_compute_whose_input_nobody_makes_is_refused() {
    let missing = read("schedule p=2 m=1\nstage 0:\nstage 1: F0 B0");
    let error = rendezvous(&missing).unwrap_err();
    assert!(matches!(error, ScheduleError::Circular { .. }), "{error}");
    let early = read("schedule p=1 m=1\nstage 0: B0 F0");
    assert!(rendezvous(&early).is_err());
}
