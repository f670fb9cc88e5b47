//! Do accepted schedules really run? Two executions that share no code with
//! the validator answer: a naive one in random order, and real threads with the
//! standard library's channels.

mod naive;
mod threads;

use super::transfers::{eager, rendezvous};
use super::{Kind, Schedule, validate};

const KINDS: [Kind; 2] = [Kind::GPipe, Kind::OneFOneB];

/// Every kind for a range of sizes with both passes, and the least capacity each is for.
fn generated() -> impl Iterator<Item = (Kind, Schedule, usize)> {
    let sizes = (1..=6).flat_map(|p| (1..=9).map(move |m| (p, m)));
    let plain = sizes.flat_map(|(p, m)| KINDS.map(|kind| (kind, kind.generate(p, m).unwrap())));
    plain.flat_map(|(kind, plain)| {
        [
            (kind, eager(&plain), 1),
            (kind, rendezvous(&plain).unwrap(), 0),
        ]
    })
}

#[test]
fn every_generated_schedule_is_valid_where_its_transfers_are_meant_for() {
    for (kind, schedule, least) in generated() {
        for capacity in least..=2 {
            let found = validate(&schedule, &kind.rules(capacity));
            assert!(found.is_ok(), "{kind} at {capacity}: {found:?}\n{schedule}");
        }
    }
}

#[test]
fn kinds_read_back_from_their_names() {
    for kind in KINDS {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
    }
    let error = "zero-bubble".parse::<Kind>().unwrap_err();
    assert!(error.to_string().contains("zero-bubble"), "{error}");
}
