//! A naive execution of a schedule, action by action and in random order, that
//! the validator's verdict on broken schedules is compared with.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::super::transfers::{eager, rendezvous};
use super::super::{Action, Kind, Schedule, deepen, validate};
use super::KINDS;
use super::hands::{Hands, Stand};

/// The channel an action uses, named by the stage that a boundary would leave
/// on it and its direction; whether the action reads it; and the message's
/// number, by the chunk that the boundary leaves. Written out again, apart from
/// `Action::other_end`.
fn channel(stage: usize, p: usize, action: Action) -> Option<((usize, char), bool, Message)> {
    let (mb, chunk) = (action.micro_batch().0, action.chunk().0 as isize);
    let up = (stage + p - 1) % p;
    let chunk_above = if stage == 0 { chunk - 1 } else { chunk };
    match action {
        Action::SendForward(_) => Some(((stage, 'f'), false, (mb, chunk))),
        Action::RecvForward(_) => Some(((up, 'f'), true, (mb, chunk_above))),
        Action::SendBackward(_) => Some(((up, 'b'), false, (mb, chunk_above))),
        Action::RecvBackward(_) => Some(((stage, 'b'), true, (mb, chunk))),
        _ => None,
    }
}

type Message = (usize, isize);

/// Runs a schedule action by action, choosing at random among the stages that
/// can move. Returns the most that each stage held, if the step was carried out
/// in full.
fn run_to_the_end(schedule: &Schedule, capacity: usize, mut random: u64) -> Option<Vec<usize>> {
    let (p, v) = (schedule.stages.len(), schedule.chunks);
    let mut hands: Vec<_> = (0..p).map(|_| Hands::default()).collect();
    let mut mail = BTreeMap::<_, VecDeque<Message>>::new();
    loop {
        let next = |hands: &[Hands], s: usize| schedule.stages[s].get(hands[s].done).copied();
        // A move is one action, or at capacity 0 a send with its receive.
        let mut moves = Vec::new();
        for stage in 0..p {
            let Some(action) = next(&hands, stage) else {
                continue;
            };
            let Some((name, reads, _)) = channel(stage, p, action) else {
                moves.push(vec![(stage, action)]);
                continue;
            };
            let queued = mail.get(&name).map_or(0, VecDeque::len);
            if capacity == 0 {
                let other = (0..p).filter(|&o| o != stage).find_map(|o| {
                    let meets = next(&hands, o).filter(|&a| {
                        channel(o, p, a).is_some_and(|(of, reads, _)| of == name && reads)
                    });
                    meets.map(|a| (o, a))
                });
                if let (false, Some(receive)) = (reads, other) {
                    moves.push(vec![(stage, action), receive]);
                }
            } else if (reads && queued > 0) || (!reads && queued < capacity) {
                moves.push(vec![(stage, action)]);
            }
        }
        if moves.is_empty() {
            break;
        }
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        for (stage, action) in moves.swap_remove((random >> 33) as usize % moves.len()) {
            let right_message = match channel(stage, p, action) {
                Some((name, true, message)) => {
                    mail.entry(name).or_default().pop_front() == Some(message)
                }
                Some((name, false, message)) => {
                    mail.entry(name).or_default().push_back(message);
                    true
                }
                None => true,
            };
            if !right_message || !hands[stage].carry_out(Stand { stage, p, v }, action) {
                return None;
            }
        }
    }
    let finished = |(stage, h): (usize, &Hands)| {
        let all_done = h.done == schedule.stages[stage].len();
        all_done && h.finished(Stand { stage, p, v }, schedule.micro_batches)
    };
    let all = mail.values().all(VecDeque::is_empty) && hands.iter().enumerate().all(finished);
    all.then(|| hands.iter().map(|h| h.peak).collect())
}

#[derive(Clone, Debug)]
enum Mutation {
    Swap(usize, usize),
    Drop(usize),
    Duplicate(usize, usize),
    Move(usize, usize),
    /// Does a backward in two parts, the second one anywhere.
    Split(usize, usize),
}

impl Mutation {
    fn apply(&self, actions: &mut Vec<Action>) {
        let len = actions.len();
        if len == 0 {
            return;
        }
        match *self {
            Self::Swap(a, b) => actions.swap(a % len, b % len),
            Self::Drop(a) => drop(actions.remove(a % len)),
            Self::Duplicate(a, to) => actions.insert(to % (len + 1), actions[a % len]),
            Self::Move(a, to) => {
                let action = actions.remove(a % len);
                actions.insert(to % len, action);
            }
            Self::Split(a, to) => {
                let mut backwards = (0..len).filter(|&i| matches!(actions[i], Action::Backward(_)));
                let count = backwards.clone().count().max(1);
                if let Some(place) = backwards.nth(a % count) {
                    let unit = actions[place].unit();
                    actions[place] = Action::BackwardInput(unit);
                    actions.insert(to % (len + 1), Action::BackwardWeight(unit));
                }
            }
        }
    }
}

fn mutations() -> impl Strategy<Value = Mutation> {
    let place = || 0usize..1000;
    prop_oneof![
        (place(), place()).prop_map(|(a, b)| Mutation::Swap(a, b)),
        // Neighbours: most often harmless, so the interesting ones to be sure of.
        place().prop_map(|a| Mutation::Swap(a, a + 1)),
        place().prop_map(Mutation::Drop),
        (place(), place()).prop_map(|(a, to)| Mutation::Duplicate(a, to)),
        (place(), place()).prop_map(|(a, to)| Mutation::Move(a, to)),
        (place(), place()).prop_map(|(a, to)| Mutation::Split(a, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// The validator is neither too lenient nor too strict.
    #[test]
    fn a_mutated_schedule_is_accepted_exactly_when_a_naive_execution_completes_it(
        (p, m) in (1usize..5, 1usize..7),
        kind in prop::sample::select(KINDS.to_vec()),
        (early, deeper) in any::<(bool, bool)>(),
        changes in prop::collection::vec((0usize..5, mutations()), 0..4),
        capacity in 0usize..3,
        seed in any::<u64>(),
    ) {
        let m = if kind.chunks() > 1 { p * m.div_ceil(p) } else { m };
        let mut plain = kind.generate(p, m).unwrap();
        if deeper {
            plain = deepen(&plain, &vec![1; p]);
        }
        // Going deeper works for some chunks only.
        let late = rendezvous(&plain);
        let mut schedule = match late {
            Ok(late) if !early => late,
            _ => eager(&plain),
        };
        for (stage, change) in changes {
            change.apply(&mut schedule.stages[stage % p]);
        }
        let accepted = validate(&schedule, &Kind::GPipe.rules(capacity));
        for seed in seed..seed.saturating_add(3) {
            let completed = run_to_the_end(&schedule, capacity, seed);
            prop_assert_eq!(accepted.is_ok(), completed.is_some(), "{:?}\n{}", accepted, schedule);
            if let (Ok(report), Some(peaks)) = (&accepted, completed) {
                prop_assert_eq!(&report.peak_in_flight, &peaks);
            }
        }
    }
}
