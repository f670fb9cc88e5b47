//! Do accepted schedules really run? Two executions that share no code with
//! the validator answer: a naive one in random order, and real threads with the
//! standard library's channels.

mod hands;
mod limits;
mod naive;
mod threads;

use std::num::NonZeroUsize;

use super::transfers::{eager, rendezvous};
use super::{Kind, Schedule, executable, validate};

const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
const THREE: NonZeroUsize = TWO.saturating_add(1);

pub(super) const KINDS: [Kind; 5] = [
    Kind::GPipe,
    Kind::OneFOneB,
    Kind::ZbH1,
    Kind::Interleaved { chunks: TWO },
    Kind::Interleaved { chunks: THREE },
];

/// Every kind for a range of sizes.
fn plain() -> impl Iterator<Item = (Kind, Schedule)> {
    let sizes = (1..=6).flat_map(|p| (1..=9).map(move |m| (p, m)));
    sizes.flat_map(|(p, m)| {
        // Only an interleaved schedule refuses some counts.
        let made = KINDS.map(|kind| (kind, kind.generate(p, m)));
        made.into_iter().filter_map(move |(kind, made)| match made {
            Ok(schedule) => Some((kind, schedule)),
            Err(error) => {
                assert!(kind.chunks() > 1 && m % p > 0, "{kind}: {error}");
                None
            }
        })
    })
}

/// Those with both passes, and the least capacity each is for.
fn generated() -> impl Iterator<Item = (Kind, Schedule, usize)> {
    plain().flat_map(|(kind, plain)| {
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
fn every_generated_schedule_reads_back_from_text_and_from_a_file() {
    for (_, schedule, _) in generated() {
        assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()));
        let file = serde_json::to_string(&schedule).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&file).unwrap(), schedule);
    }
}

#[test]
fn kinds_read_back_from_their_names() {
    for kind in KINDS {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        let file = serde_json::to_string(&kind).unwrap();
        assert_eq!(file, format!("\"{kind}\""));
        assert_eq!(serde_json::from_str::<Kind>(&file).unwrap(), kind);
    }
    let names = KINDS.map(|kind| kind.to_string());
    let expected = ["gpipe", "1f1b", "zb-h1", "interleaved:2", "interleaved:3"];
    assert_eq!(names, expected);
    for wrong in [
        "zero-bubble",
        "interleaved",
        "interleaved:0",
        "interleaved:x",
    ] {
        let error = wrong.parse::<Kind>().unwrap_err();
        assert!(error.to_string().contains(wrong), "{error}");
    }
}

#[test]
fn the_executor_gets_no_chunks_and_no_split_backwards() {
    for (kind, schedule, _) in generated() {
        let whole = matches!(kind, Kind::GPipe | Kind::OneFOneB);
        assert_eq!(executable(&schedule).is_ok(), whole, "{kind}");
    }
    let refusal = |kind: Kind| {
        let refused = executable(&kind.generate(2, 2).unwrap());
        refused.unwrap_err().to_string()
    };
    assert!(refusal(KINDS[3]).ends_with("the schedule has 2"));
    assert!(refusal(Kind::ZbH1).starts_with("stage 0 does I0, but the executor"));
}
