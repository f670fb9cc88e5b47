//! Which backward can be worked for at a point of a stage's list.

use crate::plan::schedule::Action;
use crate::runtime::stage::Upcoming;

/// The next backward in what is left of a stage's list, if nothing of it can change before. The
/// last `cool_down` backwards are the cool-down.
pub(super) fn upcoming(left: &[Action], cool_down: usize) -> Option<Upcoming> {
    let place = left.iter().position(|action| action.makes_gradient())?;
    let before = left[..place].iter();
    let backwards = left[place..]
        .iter()
        .filter(|action| action.makes_gradient());
    Some(Upcoming {
        micro_batch: left[place].micro_batch(),
        cool_down: backwards.count() <= cool_down,
        forwards: before
            .filter(|action| matches!(action, Action::Forward(_)))
            .count(),
        behind: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MicroBatchId;
    use crate::plan::schedule::{Kind, transfers};

    #[test]
    fn the_next_backward_is_told_with_the_forwards_before_it() {
        // Stage 0 of 3 with 4 micro-batches: F0 F1 F2 B0 F3 B1 B2 B3, the last two are cool-down.
        let schedule = Kind::OneFOneB.generate(3, 4).expect("a schedule");
        let actions = &transfers::eager(&schedule).stages[0];
        let at = |word: &str| {
            let word = word.parse().expect("an action");
            let place = actions.iter().position(|action| *action == word);
            upcoming(&actions[place.expect("it is there")..], 2).expect("a backward")
        };
        let found = ["RB0", "RB1", "SF3", "RB2", "RB3"].map(|word| {
            let next = at(word);
            (next.micro_batch.0, next.forwards, next.cool_down)
        });
        assert_eq!(
            found,
            [
                (0, 0, false),
                (1, 0, false),
                (1, 0, false),
                (2, 0, true),
                (3, 0, true)
            ]
        );
        assert_eq!(at("SF0").forwards, 2, "F1 and F2 come before B0");
        let none = upcoming(&[Action::Forward(MicroBatchId(0).into())], 1);
        assert!(none.is_none());
    }
}
