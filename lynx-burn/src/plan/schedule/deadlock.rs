//! Runs a schedule to its end, or to the point where nobody can move.
//!
//! One run is enough to know about *all* runs, whatever the threads' timing.
//! Every stage has a fixed order of actions and every channel (one direction
//! between two neighbours) is a queue with one writer and one reader. So an
//! action that can happen stays possible until it does: only the reader takes
//! from a channel, which gives a blocked writer room, and only the writer adds,
//! which gives a blocked reader something to take; with capacity 0 the two stand
//! before the same transfer and neither can go elsewhere. Two possible actions
//! can hence happen in either order with the same result, and all maximal runs
//! end in the same state: if one comes to its end, all do, and if one gets
//! stuck, all get stuck at the same place. No time is simulated here.

use std::collections::{HashMap, VecDeque};

use super::{Action, Schedule, ScheduleError, Unit, Waiting};
use crate::ids::StageId;

/// Fails if stages that talk through mailboxes of this capacity, one per
/// channel, get stuck. Capacity 0 means that a send completes only together
/// with its receive.
pub(super) fn run_to_completion(schedule: &Schedule, capacity: usize) -> Result<(), ScheduleError> {
    let mut run = Run {
        schedule,
        capacity,
        next: vec![0; schedule.stages.len()],
        mail: HashMap::new(),
    };
    loop {
        let mut moved = false;
        for stage in (0..schedule.stages.len()).map(StageId) {
            while run.step(stage) {
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let stuck = (0..schedule.stages.len()).map(StageId);
    let waiting: Vec<_> = stuck.filter_map(|stage| run.waiting(stage)).collect();
    match waiting.is_empty() {
        true => Ok(()),
        false => Err(ScheduleError::Deadlock { capacity, waiting }),
    }
}

struct Run<'a> {
    schedule: &'a Schedule,
    capacity: usize,
    /// The position of each stage in its list.
    next: Vec<usize>,
    /// What was sent and not yet received, by receiving stage and direction, as
    /// the receiver names it. In a ring of two, only the direction tells the
    /// channels from one stage to the other apart.
    mail: HashMap<(StageId, bool), VecDeque<Unit>>,
}

impl Run<'_> {
    fn action(&self, stage: StageId) -> Option<Action> {
        let actions = self.schedule.stages.get(stage.0)?;
        actions.get(self.next[stage.0]).copied()
    }

    /// The other end of a transfer; `None` for a compute action, and for a
    /// transfer that leads out of the pipeline, which is refused elsewhere.
    fn transfer(&self, stage: StageId, action: Action) -> Option<(StageId, Action)> {
        action.other_end(stage, self.schedule.shape())
    }

    /// Lets `stage` do its next action, if that is possible now.
    fn step(&mut self, stage: StageId) -> bool {
        let Some(action) = self.action(stage) else {
            return false;
        };
        if let Some((peer, partner)) = self.transfer(stage, action) {
            if self.capacity == 0 {
                if self.action(peer) != Some(partner) {
                    return false;
                }
                self.next[peer.0] += 1;
            } else if action.is_send() {
                let mailbox = self.mail.entry((peer, action.is_forward())).or_default();
                if mailbox.len() >= self.capacity {
                    return false;
                }
                mailbox.push_back(partner.unit());
            } else {
                let mailbox = self.mail.entry((stage, action.is_forward())).or_default();
                if mailbox.front() != Some(&action.unit()) {
                    return false;
                }
                mailbox.pop_front();
            }
        }
        self.next[stage.0] += 1;
        true
    }

    /// What `stage` waits for, once nobody can move.
    fn waiting(&self, stage: StageId) -> Option<Waiting> {
        let action = self.action(stage)?;
        let (peer, partner) = self.transfer(stage, action)?;
        // A full mailbox gets room when its oldest message is taken.
        let oldest = self.mail.get(&(peer, action.is_forward()));
        let oldest = oldest.and_then(|mailbox| mailbox.front());
        let awaits = match (partner, oldest) {
            (Action::RecvForward(_), Some(&unit)) => Action::RecvForward(unit),
            (Action::RecvBackward(_), Some(&unit)) => Action::RecvBackward(unit),
            _ => partner,
        };
        Some(Waiting {
            stage,
            action,
            peer,
            awaits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::transfers::eager;
    use super::super::{Kind, Schedule, ScheduleError};
    use super::run_to_completion;

    #[test]
    fn eager_1f1b_without_mailboxes_deadlocks_and_says_who_waits_for_whom() {
        let schedule = eager(&Kind::OneFOneB.generate(2, 2).unwrap());
        let error = run_to_completion(&schedule, 0).unwrap_err();
        let words =
            "stage 0 at SF1 waits for RF1 of stage 1; stage 1 at SB0 waits for RB0 of stage 0";
        assert!(error.to_string().ends_with(words), "{error}");
        assert_eq!(run_to_completion(&schedule, 1), Ok(()));
    }

    #[test]
    fn a_full_mailbox_waits_for_its_oldest_message_to_be_taken() {
        // Three boundaries must lie in the channel before stage 1 takes any.
        let text = "schedule p=3 m=3\n\
                    stage 0: F0 SF0 F1 SF1 F2 SF2 RB0\n\
                    stage 1: RB0 RF0 RF1 RF2\n\
                    stage 2:";
        let schedule: Schedule = text.parse().unwrap();
        let error = run_to_completion(&schedule, 2).unwrap_err();
        let ScheduleError::Deadlock { capacity, waiting } = error else {
            panic!("{error}");
        };
        assert_eq!(capacity, 2);
        assert_eq!(
            waiting[0].to_string(),
            "stage 0 at SF2 waits for RF0 of stage 1"
        );
    }
}
