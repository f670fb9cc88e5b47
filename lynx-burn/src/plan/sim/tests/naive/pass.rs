//! How a forward or a backward begins and ends.

use std::collections::VecDeque;

use super::super::super::costs::Part;
use super::{Piece, World};
use crate::plan::schedule::Action;

impl World<'_> {
    pub(super) fn begin(&mut self, s: usize, action: Action) {
        let costs = &self.costs.stages[s];
        let mb = action.micro_batch().0;
        let memory = &costs.memory;
        self.stages[s].bytes += self.size(memory.workspace.0, mb);
        let (pieces, bytes) = match action {
            Action::Forward(_) => (self.of_forward(s, mb), memory.retained),
            _ => (self.of_backward(s, mb), memory.recomputed),
        };
        let bytes = self.size(bytes.0, mb);
        let stage = &mut self.stages[s];
        stage.grow(bytes);
        let exposed = pieces.iter().filter(|(_, p)| matches!(p, Piece::Exposed));
        stage.figures.exposed += exposed.map(|(time, _)| time).sum::<u64>();
        stage.pieces = pieces;
        stage.running = true;
    }

    fn of_forward(&self, s: usize, mb: usize) -> VecDeque<(u64, Piece)> {
        let pieces = self.costs.stages[s].forward.iter().map(|part| match part {
            Part::Compute { time, .. } => (time.0, Piece::Busy),
            Part::Collective {
                window,
                time,
                recompute,
            } => (time.0, Piece::Host(*window, recompute.0)),
            Part::Recompute { .. } => panic!("recompute in a forward"),
        });
        pieces
            .map(|(time, piece)| (self.size(time, mb), piece))
            .collect()
    }

    fn of_backward(&mut self, s: usize, mb: usize) -> VecDeque<(u64, Piece)> {
        let costs = &self.costs.stages[s];
        let left = self.stages[s].ahead.take();
        if left.is_none() {
            self.stages[s].bytes += self.size(costs.memory.ahead.0, mb);
        }
        let left = left.unwrap_or(self.size(costs.ahead.work.0, mb));
        let mut pieces = VecDeque::from([(left, Piece::Exposed)]);
        for part in &costs.backward {
            match part {
                Part::Compute { time, .. } => {
                    pieces.push_back((self.size(time.0, mb), Piece::Busy))
                }
                Part::Recompute { time } => {
                    pieces.push_back((self.size(time.0, mb), Piece::Exposed));
                }
                Part::Collective {
                    window,
                    time,
                    recompute,
                } => {
                    let (time, work) = (self.size(time.0, mb), self.size(recompute.0, mb));
                    let inside = work.min(self.room(*window, time));
                    pieces.extend([(time, Piece::Busy), (work - inside, Piece::Exposed)]);
                    *self.stages[s].figures.hidden.entry(*window).or_default() += inside;
                }
            }
        }
        pieces
    }

    pub(super) fn end(&mut self, s: usize, action: Action) {
        let memory = &self.costs.stages[s].memory;
        let mb = action.micro_batch().0;
        let of = |value| self.size(value, mb);
        let (workspace, retained) = (of(memory.workspace.0), of(memory.retained.0));
        let made = of(memory.recomputed.0) + of(memory.ahead.0);
        let trains = self.schedule.stages[s]
            .iter()
            .any(|a| matches!(a, Action::Backward(_)));
        let stage = &mut self.stages[s];
        stage.running = false;
        stage.bytes -= workspace;
        if let Action::Forward(_) = action {
            stage.forwards.push(mb);
            stage.bytes -= if trains { 0 } else { retained };
        } else {
            stage.backwards.push(mb);
            stage.bytes -= retained + made;
        }
    }
}
