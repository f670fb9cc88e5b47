//! Random sound orders of computes, with chunks and split backwards.

use proptest::prelude::*;

use crate::ids::{ChunkId, MicroBatchId};
use crate::plan::schedule::transfers::{eager, rendezvous};
use crate::plan::schedule::{
    Action, Kind, Schedule, ScheduleError, Unit, reduce_gradients, validate,
};

/// How far the stages are with each chunk, in model order.
struct Progress {
    m: usize,
    forwards: Vec<usize>,
    /// Gradients of inputs, and of those the backwards that were split.
    inputs: Vec<usize>,
    halves: Vec<Vec<usize>>,
}

impl Progress {
    /// What can be done next: the place in the model, and the action.
    fn moves(&self, p: usize, splits: bool) -> Vec<(usize, Action)> {
        let mut moves = Vec::new();
        let all = self.forwards.len();
        for place in 0..all {
            let unit = |mb| Unit::from(MicroBatchId(mb)).on(ChunkId(place / p));
            let made = match place {
                0 => self.m,
                _ => self.forwards[place - 1],
            };
            if self.forwards[place] < made {
                moves.push((place, Action::Forward(unit(self.forwards[place]))));
            }
            let made = match place + 1 {
                next if next == all => self.forwards[place],
                next => self.inputs[next],
            };
            let next = self.inputs[place];
            if next < made {
                // Whole ones would overtake halves, and gradients must be added in order.
                if self.halves[place].is_empty() {
                    moves.push((place, Action::Backward(unit(next))));
                }
                if splits {
                    moves.push((place, Action::BackwardInput(unit(next))));
                }
            }
            if let Some(half) = self.halves[place].first() {
                moves.push((place, Action::BackwardWeight(unit(*half))));
            }
        }
        moves
    }

    fn note(&mut self, place: usize, action: Action) {
        match action {
            Action::Forward(_) => self.forwards[place] += 1,
            Action::BackwardWeight(_) => drop(self.halves[place].remove(0)),
            _ => {
                if let Action::BackwardInput(unit) = action {
                    self.halves[place].push(unit.micro_batch.0);
                }
                self.inputs[place] += 1;
            }
        }
    }
}

/// Any sound order of computes, made by letting random stages go on.
fn any_order(p: usize, m: usize, v: usize, splits: bool, mut choices: Vec<u8>) -> Schedule {
    let mut stages = vec![Vec::new(); p];
    let mut progress = Progress {
        m,
        forwards: vec![0; p * v],
        inputs: vec![0; p * v],
        halves: vec![Vec::new(); p * v],
    };
    loop {
        let moves = progress.moves(p, splits);
        let choice = usize::from(choices.pop().unwrap_or(0));
        let Some(&(place, action)) = moves.get(choice % moves.len().max(1)) else {
            break;
        };
        progress.note(place, action);
        stages[place % p].push(action);
    }
    Schedule {
        micro_batches: m,
        chunks: v,
        stages,
    }
}

/// A sound schedule with transfers. With mailboxes it may still deadlock.
pub(super) fn schedules() -> impl Strategy<Value = Schedule> {
    let shape = (
        1usize..5,
        1usize..6,
        1usize..4,
        0usize..7,
        any::<(bool, bool, bool)>(),
    );
    let choices = prop::collection::vec(any::<u8>(), 80);
    (shape, choices).prop_map(|((p, m, v, kind, (early, splits, reduces)), choices)| {
        let plain = match kind {
            0 => Kind::GPipe.generate(p, m).unwrap(),
            1 => Kind::OneFOneB.generate(p, m).unwrap(),
            2 => Kind::ZbH1.generate(p, m).unwrap(),
            3 => {
                let kind: Kind = format!("interleaved:{v}").parse().unwrap();
                kind.generate(p, p * m.div_ceil(p)).unwrap()
            }
            4 => any_order(p, m, 1, splits, choices),
            _ => any_order(p, m, v, splits, choices),
        };
        let eager = eager(&plain);
        // Of several chunks in any order, what is sent first may be wanted last.
        let rules = Kind::GPipe.rules(usize::MAX);
        let crosses = matches!(
            validate(&eager, &rules),
            Err(ScheduleError::ChannelOrder { .. })
        );
        let complete = if early && !crosses {
            eager
        } else {
            rendezvous(&plain).unwrap()
        };
        match reduces {
            true => reduce_gradients(&complete),
            false => complete,
        }
    })
}
