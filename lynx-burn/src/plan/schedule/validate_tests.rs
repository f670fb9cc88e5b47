//! One broken schedule per kind of fault. Whether accepted schedules really run
//! is tested against independent executions in `schedule/tests.rs`.

use super::super::transfers::{eager, rendezvous};
use super::super::{Kind, Schedule, ScheduleError, forward_only};
use super::{InFlight, Rules, validate};

/// The words of the error that `text` is refused with.
fn refusal(text: &str, rules: Rules) -> String {
    let schedule: Schedule = text.parse().unwrap();
    validate(&schedule, &rules).unwrap_err().to_string()
}

fn training(mailbox_capacity: usize) -> Rules {
    Kind::GPipe.rules(mailbox_capacity)
}

const SOUND: &str = "schedule p=2 m=2
stage 0: F0 SF0 F1 SF1 RB0 B0 RB1 B1
stage 1: RF0 F0 B0 SB0 RF1 F1 B1 SB1";

#[test]
fn the_schedule_that_the_next_test_breaks_is_sound() {
    let schedule: Schedule = SOUND.parse().unwrap();
    assert!(validate(&schedule, &training(1)).is_ok());
}

#[test]
fn every_kind_of_fault_is_named_with_stage_and_action() {
    let faults = [
        ("RF0 F0 B0", "RF0 B0", "stage 1 never does F0"),
        ("SF0 F1", "F1", "stage 0 never does SF0"),
        ("RF1 F1", "F1", "stage 1 never does RF1"),
        ("RB1 B1", "RB1", "stage 0 never does B1"),
        (
            "F0 SF0 F1",
            "F0 F0 SF0 F1",
            "stage 0 does F0 more than once",
        ),
        ("F0 SF0 F1", "SF0 F0 F1", "stage 0 does SF0 before F0"),
        ("RF0 F0 B0", "F0 RF0 B0", "stage 1 does F0 before RF0"),
        ("RF0 F0 B0", "RF0 B0 F0", "stage 1 does B0 before F0"),
        ("RB0 B0", "B0 RB0", "stage 0 does B0 before RB0"),
        (
            "RB0 B0 RB1 B1",
            "RB0 RB1 B1 B0",
            "stage 0 does B1 before B0",
        ),
        (
            "F0 SF0 F1",
            "RF0 F0 SF0 F1",
            "stage 0 does RF0, but there is no stage",
        ),
        (
            "F1 B1 SB1",
            "F1 SF1 B1 SB1",
            "stage 1 does SF1, but there is no stage",
        ),
        (
            "F1 B1 SB1",
            "F1 B1 SB1 F2",
            "stage 1 does F2, but the step has only 2",
        ),
        (
            "F0 SF0 F1 SF1",
            "F0 F1 SF1 SF0",
            "transfer 0 from stage 0 to stage 1 is sent as SF1",
        ),
        ("m=2", "m=3", "stage 0 never does F2"),
        ("m=2", "m=18446744073709551615", "stage 0 never does F2"),
        ("m=2", "m=0", "at least one micro-batch"),
    ];
    for (sound, broken, words) in faults {
        assert!(SOUND.contains(sound), "{sound}");
        let text = SOUND.replacen(sound, broken, 1);
        let refused = refusal(&text, training(1));
        assert!(refused.contains(words), "{refused} should say {words}");
    }
    let empty = Schedule {
        micro_batches: 1,
        chunks: 1,
        stages: vec![],
    };
    let refused = validate(&empty, &training(1));
    assert_eq!(refused, Err(ScheduleError::NoStages));
}

/// Two chunks, and on stage 1 split backwards of chunk 0.
const RING: &str = "schedule p=2 m=2 v=2
stage 0: F0 SF0 F1 SF1 RF0.1 F0.1 SF0.1 RF1.1 F1.1 SF1.1 RB0.1 B0.1 SB0.1 RB1.1 B1.1 SB1.1 RB0 B0 RB1 B1
stage 1: RF0 F0 SF0 RF1 F1 SF1 RF0.1 F0.1 B0.1 SB0.1 RF1.1 F1.1 B1.1 SB1.1 RB0 I0 SB0 RB1 I1 SB1 W0 W1";

#[test]
fn faults_of_chunks_and_split_backwards_are_named_with_stage_and_action() {
    let sound: Schedule = RING.parse().unwrap();
    let report = validate(&sound, &training(2)).unwrap();
    assert_eq!(report.peak_in_flight, [4, 3]);
    let faults = [
        ("F1.1 SF1.1", "SF1.1", "stage 0 never does F1.1"),
        ("B0.1 SB0.1 RB1.1", "SB0.1 RB1.1", "stage 0 never does B0.1"),
        (
            "F1 SF1 RF0.1 F0.1 B",
            "F1 RF0.1 F0.1 B",
            "stage 1 never does SF1",
        ),
        ("I0 SB0", "SB0", "stage 1 never does I0"),
        (" W1", "", "stage 1 never does W1"),
        ("I0 SB0", "I0 B0 SB0", "stage 1 does B0 and also I0"),
        ("RB0 I0", "W0 RB0 I0", "stage 1 does W0 more than once"),
        (
            "RB0 I0 SB0 RB1 I1 SB1 W0",
            "RB0 W0 I0 SB0 RB1 I1 SB1",
            "stage 1 does W0 before I0",
        ),
        ("W0 W1", "W1 W0", "stage 1 does W1 before W0"),
        ("I0 SB0", "SB0 I0", "stage 1 does SB0 before I0"),
        (
            "W0 W1",
            "W0 W1 F0.2",
            "stage 1 does F0.2, but stages have only 2 chunks",
        ),
        (
            "F1.1 B1.1",
            "F1.1 SF1.1 B1.1",
            "stage 1 does SF1.1, but there is no stage",
        ),
        (
            "F0 SF0 F1",
            "RF0 F0 SF0 F1",
            "stage 0 does RF0, but there is no stage",
        ),
        ("v=2", "v=0", "at least one chunk"),
        ("v=2", "v=3", "stage 0 never does F0.2"),
        ("v=2", "v=18446744073709551615", "stage 0 never does F0.2"),
        (
            "RF0.1 F0.1 SF0.1 RF1.1 F1.1",
            "RF1.1 F1.1 RF0.1 F0.1 SF0.1",
            "transfer 0 from stage 1 to stage 0 is sent as SF0 but received as RF1.1",
        ),
    ];
    for (sound, broken, words) in faults {
        assert!(RING.contains(sound), "{sound}");
        let text = RING.replacen(sound, broken, 1);
        let refused = refusal(&text, training(2));
        assert!(refused.contains(words), "{refused} should say {words}");
    }
}

#[test]
fn a_stage_that_is_alone_runs_its_chunks_in_model_order() {
    let sound = "schedule p=1 m=1 v=2\nstage 0: F0 F0.1 B0.1 B0";
    assert!(validate(&sound.parse().unwrap(), &training(0)).is_ok());
    for (sound_part, broken, words) in [
        ("F0 F0.1", "F0.1 F0", "stage 0 does F0.1 before F0"),
        ("B0.1 B0", "B0 B0.1", "stage 0 does B0 before B0.1"),
        ("B0.1 B0", "I0 W0 B0.1", "stage 0 does I0 before B0.1"),
    ] {
        let refused = refusal(&sound.replacen(sound_part, broken, 1), training(0));
        assert!(refused.contains(words), "{refused} should say {words}");
    }
}

#[test]
fn compute_actions_alone_are_not_enough_for_two_stages() {
    let plain = Kind::GPipe.generate(2, 1).unwrap();
    let refused = validate(&plain, &training(1)).unwrap_err();
    assert!(
        matches!(refused, ScheduleError::Missing { .. }),
        "{refused}"
    );
}

#[test]
fn a_backward_has_no_place_in_evaluation_and_a_forward_only_schedule_none_in_training() {
    let rules = |backward| Rules {
        mailbox_capacity: 1,
        in_flight: InFlight::Unlimited,
        backward,
        replicas: 1,
    };
    let evaluation = eager(&forward_only(3, 4).unwrap());
    let report = validate(&evaluation, &rules(false)).unwrap();
    assert_eq!(report.peak_in_flight, [1, 1, 1], "nothing is kept");
    let refused = validate(&evaluation, &rules(true)).unwrap_err();
    assert!(
        matches!(refused, ScheduleError::Missing { .. }),
        "{refused}"
    );
    let refused = refusal(SOUND, rules(false));
    assert!(
        refused.contains("RB0 in a schedule that only runs forward"),
        "{refused}"
    );
}

/// deepspeed#2800: 1F1B that held one activation too many.
#[test]
fn one_micro_batch_too_many_in_flight_is_refused_under_the_1f1b_limit() {
    let rules = |in_flight| Rules {
        in_flight,
        ..training(1)
    };
    let gpipe = eager(&Kind::GPipe.generate(3, 4).unwrap());
    assert!(validate(&gpipe, &rules(InFlight::Unlimited)).is_ok());
    let refused = validate(&gpipe, &rules(InFlight::OneFOneB)).unwrap_err();
    let words = "stage 0 holds 4 micro-batches when it does F3, but may hold 3";
    assert_eq!(refused.to_string(), words);
}

/// pytorch#128910: memory that grew with the number of micro-batches.
#[test]
fn in_1f1b_the_peak_is_what_the_stage_needs_and_flat_in_micro_batches() {
    for stages in 1..=6 {
        for micro_batches in [1, 2, 3, 8, 16, 32] {
            let plain = Kind::OneFOneB.generate(stages, micro_batches).unwrap();
            for (schedule, capacity) in [(eager(&plain), 1), (rendezvous(&plain).unwrap(), 0)] {
                let report = validate(&schedule, &Kind::OneFOneB.rules(capacity)).unwrap();
                let expected = (0..stages).map(|s| micro_batches.min(stages - s));
                assert_eq!(report.peak_in_flight, expected.collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn in_gpipe_every_stage_holds_all_micro_batches() {
    let schedule = eager(&Kind::GPipe.generate(3, 5).unwrap());
    let report = validate(&schedule, &training(1)).unwrap();
    assert_eq!(report.peak_in_flight, [5, 5, 5]);
}
