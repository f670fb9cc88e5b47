//! A naive execution of a schedule, action by action and in random order, that
//! the validator's verdict on broken schedules is compared with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::super::transfers::{eager, rendezvous};
use super::super::{Action, Kind, Schedule, validate};
use super::KINDS;

/// The channel an action uses, named by its lower stage and its direction, and
/// whether the action reads it. Written out again, apart from `Action::peer`.
fn channel(stage: usize, action: Action) -> Option<((usize, char), bool)> {
    match action {
        Action::SendForward(_) => Some(((stage, 'f'), false)),
        Action::RecvForward(_) => Some(((stage.wrapping_sub(1), 'f'), true)),
        Action::SendBackward(_) => Some(((stage.wrapping_sub(1), 'b'), false)),
        Action::RecvBackward(_) => Some(((stage, 'b'), true)),
        _ => None,
    }
}

/// What one stage has in its hands while the naive execution runs.
#[derive(Default)]
struct Hands {
    done: usize,
    inputs: BTreeSet<usize>,
    outputs: BTreeSet<usize>,
    gradients_in: BTreeSet<usize>,
    gradients_out: BTreeSet<usize>,
    tapes: BTreeSet<usize>,
    summed: Vec<usize>,
    forwards: usize,
}

impl Hands {
    /// Carries out `action`; false when what it needs is not at hand.
    fn carry_out(&mut self, stage: usize, stages: usize, action: Action) -> bool {
        let mb = action.micro_batch().0;
        self.done += 1;
        match action {
            Action::Forward(_) => {
                self.forwards += 1;
                self.outputs.insert(mb);
                (stage == 0 || self.inputs.remove(&mb)) && self.tapes.insert(mb)
            }
            Action::Backward(_) => {
                self.summed.push(mb);
                self.gradients_out.insert(mb);
                let last = stage + 1 == stages;
                (last || self.gradients_in.remove(&mb)) && self.tapes.remove(&mb)
            }
            Action::SendForward(_) => self.outputs.remove(&mb),
            Action::SendBackward(_) => self.gradients_out.remove(&mb),
            Action::RecvForward(_) => self.inputs.insert(mb),
            Action::RecvBackward(_) => self.gradients_in.insert(mb),
        }
    }
}

/// Runs a schedule action by action, choosing at random among the stages that
/// can move, and tells whether the step was carried out in full.
fn runs_to_the_end(schedule: &Schedule, capacity: usize, mut random: u64) -> bool {
    let p = schedule.stages.len();
    let mut hands: Vec<_> = (0..p).map(|_| Hands::default()).collect();
    let mut mail = BTreeMap::<_, VecDeque<usize>>::new();
    loop {
        let next = |hands: &[Hands], s: usize| schedule.stages[s].get(hands[s].done).copied();
        // A move is one action, or at capacity 0 a send with its receive.
        let mut moves = Vec::new();
        for stage in 0..p {
            let Some(action) = next(&hands, stage) else {
                continue;
            };
            let Some((name, reads)) = channel(stage, action) else {
                moves.push(vec![(stage, action)]);
                continue;
            };
            let queued = mail.get(&name).map_or(0, VecDeque::len);
            if capacity == 0 {
                let other = (0..p).filter(|&o| o != stage).find_map(|o| {
                    let meets = next(&hands, o).filter(|&a| channel(o, a) == Some((name, true)));
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
            let mailbox =
                channel(stage, action).map(|(name, reads)| (mail.entry(name).or_default(), reads));
            let right_message = match mailbox {
                Some((mailbox, true)) => mailbox.pop_front() == Some(action.micro_batch().0),
                Some((mailbox, false)) => {
                    mailbox.push_back(action.micro_batch().0);
                    true
                }
                None => true,
            };
            if !right_message || !hands[stage].carry_out(stage, p, action) {
                return false;
            }
        }
    }
    let nothing_left = |(stage, h): (usize, &Hands)| {
        let sent =
            (stage + 1 == p || h.outputs.is_empty()) && (stage == 0 || h.gradients_out.is_empty());
        let read = h.inputs.is_empty() && h.gradients_in.is_empty() && h.tapes.is_empty();
        let all = (0..schedule.micro_batches).collect::<Vec<_>>();
        let finished = h.done == schedule.stages[stage].len() && h.forwards == all.len();
        sent && read && finished && h.summed == all
    };
    mail.values().all(VecDeque::is_empty) && hands.iter().enumerate().all(nothing_left)
}

#[derive(Clone, Debug)]
enum Mutation {
    Swap(usize, usize),
    Drop(usize),
    Duplicate(usize, usize),
    Move(usize, usize),
}

impl Mutation {
    fn apply(&self, actions: &mut Vec<Action>) {
        let len = actions.len();
        match *self {
            Self::Swap(a, b) => actions.swap(a % len, b % len),
            Self::Drop(a) => drop(actions.remove(a % len)),
            Self::Duplicate(a, to) => actions.insert(to % (len + 1), actions[a % len]),
            Self::Move(a, to) => {
                let action = actions.remove(a % len);
                actions.insert(to % len, action);
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
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// The validator is neither too lenient nor too strict.
    #[test]
    fn a_mutated_schedule_is_accepted_exactly_when_a_naive_execution_completes_it(
        (p, m) in (1usize..5, 1usize..6),
        kind in prop::sample::select(KINDS.to_vec()),
        early in any::<bool>(),
        changes in prop::collection::vec((0usize..5, mutations()), 0..3),
        capacity in 0usize..3,
        seed in any::<u64>(),
    ) {
        let plain = kind.generate(p, m).unwrap();
        let mut schedule = if early { eager(&plain) } else { rendezvous(&plain).unwrap() };
        for (stage, change) in changes {
            change.apply(&mut schedule.stages[stage % p]);
        }
        let accepted = validate(&schedule, &Kind::GPipe.rules(capacity));
        for seed in seed..seed.saturating_add(3) {
            let completed = runs_to_the_end(&schedule, capacity, seed);
            prop_assert_eq!(accepted.is_ok(), completed, "{:?}\n{}", accepted, schedule);
        }
    }
}
