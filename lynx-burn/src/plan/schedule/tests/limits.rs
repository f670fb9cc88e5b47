//! How much the kinds that are newer than 1F1B hold.

use super::super::transfers::rendezvous;
use super::super::{Kind, Schedule, validate};
use super::plain;

fn peaks(kind: Kind, plain: &Schedule) -> Vec<usize> {
    let schedule = rendezvous(plain).unwrap();
    validate(&schedule, &kind.rules(0)).unwrap().peak_in_flight
}

/// A stage's limit is not only kept but reached, so it says what it costs.
#[test]
fn interleaved_stages_hold_one_unit_more_than_megatrons_warm_up() {
    for (kind, schedule) in plain().filter(|(kind, _)| kind.chunks() > 1) {
        let (p, m, v) = (schedule.stages.len(), schedule.micro_batches, kind.chunks());
        let expected = (0..p).map(|r| (m * v).min((p - r - 1) * 2 + (v - 1) * p + 1));
        assert_eq!(
            peaks(kind, &schedule),
            expected.collect::<Vec<_>>(),
            "{kind}"
        );
    }
}

#[test]
fn no_stage_of_zb_h1_holds_more_than_the_first_stage_of_1f1b() {
    for (kind, schedule) in plain().filter(|(kind, _)| *kind == Kind::ZbH1) {
        let (p, m) = (schedule.stages.len(), schedule.micro_batches);
        assert_eq!(peaks(kind, &schedule), vec![m.min(p); p]);
    }
}

#[test]
fn one_unit_too_many_is_refused_under_the_limit_of_its_kind() {
    let read = |text: &str| text.parse::<Schedule>().unwrap();
    let refusal = |kind: &str, text: &str| {
        let kind: Kind = kind.parse().unwrap();
        let schedule = rendezvous(&read(text)).unwrap();
        validate(&schedule, &kind.rules(0)).unwrap_err().to_string()
    };
    // The W come too late.
    let late = "schedule p=1 m=2\nstage 0: F0 I0 F1 I1 W0 W1";
    let words = "stage 0 holds 2 micro-batches when it does F1, but may hold 1";
    assert_eq!(refusal("zb-h1", late), words);
    let wide = "schedule p=1 m=2 v=2\nstage 0: F0 F0.1 F1 F1.1 B0.1 B0 B1.1 B1";
    let words = "stage 0 holds 3 micro-batches when it does F1, but may hold 2";
    assert_eq!(refusal("interleaved:2", wide), words);
}
