//! A pass that runs forwards earlier than a schedule needs them.
//!
//! It serves two ideas. A *delayed backward*: with 1 on every stage, there is
//! another forward between a forward and its own backward, also on the last
//! stage and where one stage is all there is. Its windows F1 and F2 can then
//! host the recompute of that backward, for one more micro-batch in flight.
//! And, with more on the early stages, the idea of Obscura (USENIX ATC 2025):
//! between the forwards of the warm-up and the first backward an early stage
//! stands still; filled with forwards, that time comes back later, before
//! backwards, where recompute can use it.

use std::collections::VecDeque;

use super::{Action, Schedule};

/// Moves every forward of stage `s` before `extra[s]` more backwards.
///
/// Stage `s` of 1F1B so holds `min(m, p - s + extra[s])` micro-batches, see
/// [`InFlight::Deeper`](super::InFlight::Deeper). Transfers are dropped: add
/// them afterwards. A stage that `extra` does not name stays as it is.
///
/// With enough micro-batches the result is sound as long as `extra[s]` is at
/// most `extra[s - 1] + 1`; a stage that wants more waits for forwards that the
/// stage before it makes only after its own first backward.
/// [`validate()`](super::validate()) and
/// [`rendezvous`](super::transfers::rendezvous) find that. A stage that goes
/// further ahead than the one behind it can use also needs mailboxes that hold
/// what it makes, or `rendezvous`, which has it wait.
pub fn deepen(schedule: &Schedule, extra: &[usize]) -> Schedule {
    let stages = schedule.stages.iter().enumerate();
    let stages = stages.map(|(stage, actions)| {
        let computes = actions.iter().copied().filter(|a| a.is_compute());
        match extra.get(stage).copied().unwrap_or(0) {
            0 => computes.collect(),
            extra => deeper(computes, extra),
        }
    });
    schedule.with_stages(stages.collect())
}

/// The same actions with every forward before `extra` more backwards.
fn deeper(computes: impl Iterator<Item = Action>, extra: usize) -> Vec<Action> {
    let mut actions = Vec::new();
    // A backward is let go when one of the forwards after it has seen `extra`
    // others pass; all else keeps its order behind it.
    let mut held: VecDeque<Action> = VecDeque::new();
    let mut held_backwards = 0;
    for action in computes {
        if !action.is_forward() {
            held_backwards += usize::from(action.makes_gradient());
            held.push_back(action);
            continue;
        }
        while held_backwards > extra {
            let Some(backward) = held.pop_front() else {
                break;
            };
            held_backwards -= usize::from(backward.makes_gradient());
            actions.push(backward);
        }
        // What follows the last of them, such as the gradients of its weights,
        // belongs to it.
        while let Some(rest) = held.pop_front_if(|a| !a.makes_gradient()) {
            actions.push(rest);
        }
        actions.push(action);
    }
    actions.extend(held);
    actions
}

#[cfg(test)]
mod tests {
    use super::super::transfers::{eager, rendezvous};
    use super::super::{InFlight, Kind, Rules, Schedule, validate};
    use super::deepen;

    fn rules(extra: &[usize], mailbox_capacity: usize) -> Rules {
        Rules {
            in_flight: InFlight::Deeper(extra.to_vec()),
            ..Kind::OneFOneB.rules(mailbox_capacity)
        }
    }

    #[test]
    fn a_delayed_backward_has_another_forward_before_it() {
        let read = |text: &str| text.parse::<Schedule>().unwrap();
        let alone = Kind::OneFOneB.generate(1, 4).unwrap();
        let expected = "schedule p=1 m=4\nstage 0: F0 F1 B0 F2 B1 F3 B2 B3";
        assert_eq!(deepen(&alone, &[1]), read(expected));
        let two = Kind::OneFOneB.generate(2, 3).unwrap();
        let expected = "schedule p=2 m=3\n\
                        stage 0: F0 F1 F2 B0 B1 B2\n\
                        stage 1: F0 F1 B0 F2 B1 B2";
        assert_eq!(deepen(&two, &[1, 1]), read(expected));
    }

    #[test]
    fn gradients_of_weights_stay_behind_their_backward() {
        let zb = Kind::ZbH1.generate(2, 4).unwrap();
        let expected = "schedule p=2 m=4\n\
                        stage 0: F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3\n\
                        stage 1: F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3";
        assert_eq!(deepen(&zb, &[1, 1]), expected.parse().unwrap());
    }

    #[test]
    fn nothing_extra_drops_the_transfers_and_nothing_else() {
        for kind in super::super::tests::KINDS {
            let plain = kind.generate(4, 8).unwrap();
            assert_eq!(deepen(&eager(&plain), &[]), plain);
            assert_eq!(deepen(&plain, &[0; 4]), plain);
        }
    }

    #[test]
    fn each_stage_of_1f1b_holds_as_many_more_and_never_more_than_there_are() {
        for extra in [[1, 1, 1, 1], [3, 2, 1, 0], [0, 1, 2, 3], [9, 9, 9, 9]] {
            for m in [1, 3, 8, 20] {
                let plain = Kind::OneFOneB.generate(4, m).unwrap();
                let schedule = rendezvous(&deepen(&plain, &extra)).unwrap();
                let report = validate(&schedule, &rules(&extra, 0)).unwrap();
                let expected = (0..4).map(|s| m.min(4 - s + extra[s]));
                assert_eq!(report.peak_in_flight, expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn one_more_in_flight_than_the_extra_is_refused() {
        let plain = Kind::OneFOneB.generate(2, 6).unwrap();
        let schedule = rendezvous(&deepen(&plain, &[2, 1])).unwrap();
        let refused = validate(&schedule, &rules(&[2], 0)).unwrap_err();
        let words = "stage 1 holds 2 micro-batches when it does F1, but may hold 1";
        assert_eq!(refused.to_string(), words);
    }

    /// With mailboxes that hold everything, only the order can get stuck.
    #[test]
    fn it_deadlocks_exactly_where_a_stage_gets_more_than_one_beyond_the_stage_before() {
        let m = 12;
        let plain = Kind::OneFOneB.generate(3, m).unwrap();
        let mut stuck = 0;
        for code in 0..4 * 4 * 4 {
            let extra = [code / 16, code / 4 % 4, code % 4];
            let sound = extra.windows(2).all(|pair| pair[1] <= pair[0] + 1);
            let deep = deepen(&plain, &extra);
            let found = validate(&eager(&deep), &rules(&extra, m));
            assert_eq!(found.is_ok(), sound, "{extra:?}: {found:?}");
            assert_eq!(rendezvous(&deep).is_ok(), sound, "{extra:?}");
            if !sound {
                let error = found.unwrap_err().to_string();
                assert!(error.starts_with("deadlock"), "{error}");
                stuck += 1;
            }
        }
        // Of 16 pairs, 3 break the rule: (0, 2), (0, 3), (1, 3).
        assert!(stuck > 0);
    }
}
