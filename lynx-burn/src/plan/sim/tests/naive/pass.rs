//! How a forward or a backward begins and ends.

use std::collections::VecDeque;

use super::super::super::costs::{Ahead, Part};
use super::{Does, Piece, World};
use crate::plan::schedule::Action;

impl World<'_> {
    pub(super) fn begin(&mut self, s: usize, action: Action) {
        let mb = action.micro_batch().0;
        let pieces = match action {
            Action::Forward(_) => self.of_forward(s, mb),
            _ => self.of_backward(s, mb),
        };
        let stage = &mut self.stages[s];
        let exposed = pieces.iter().filter(|p| matches!(p.does, Does::Exposed));
        stage.figures.exposed += exposed.map(|piece| piece.left).sum::<u64>();
        stage.take(mb, pieces.front().map_or(0, |piece| piece.takes));
        stage.pieces = pieces;
        stage.running = true;
    }

    /// The parts of the backward that comes next, and the work ahead of it.
    pub(super) fn backward_costs(&self, s: usize) -> (&[Part], Ahead) {
        let costs = &self.costs.stages[s];
        let all = self.schedule.stages[s].iter();
        let all = all.filter(|a| matches!(a, Action::Backward(_))).count();
        let left = all - self.stages[s].backwards.len();
        match &costs.cool_down {
            Some(last) if left <= last.backwards => (&last.backward, last.ahead),
            _ => (&costs.backward, costs.ahead),
        }
    }

    fn piece(&self, part: &Part, mb: usize, does: Does) -> Piece {
        let (Part::Compute { time, bytes, .. }
        | Part::Collective { time, bytes, .. }
        | Part::Recompute { time, bytes }) = part;
        Piece {
            left: self.size(time.0, mb),
            does,
            takes: self.size(bytes.takes.0, mb),
            frees: self.size(bytes.frees.0, mb),
        }
    }

    fn of_forward(&self, s: usize, mb: usize) -> VecDeque<Piece> {
        let pieces = self.costs.stages[s].forward.iter().map(|part| match part {
            Part::Compute { .. } => self.piece(part, mb, Does::Busy),
            Part::Collective {
                window,
                recompute,
                busy,
                ..
            } => {
                let busy = self.size(busy.0, mb);
                self.piece(part, mb, Does::Host(*window, recompute.0, busy))
            }
            Part::Recompute { .. } => panic!("recompute in a forward"),
        });
        pieces.collect()
    }

    fn of_backward(&mut self, s: usize, mb: usize) -> VecDeque<Piece> {
        let begun = self.stages[s].ahead.take();
        let (parts, ahead) = self.backward_costs(s);
        let bytes = self.size(ahead.bytes.0, mb);
        let mut pieces = VecDeque::from([Piece {
            left: begun.unwrap_or(self.size(ahead.work.0, mb)),
            does: Does::Exposed,
            takes: if begun.is_none() { bytes } else { 0 },
            frees: 0,
        }]);
        let mut hidden = Vec::new();
        for part in parts {
            match part {
                Part::Compute { .. } => pieces.push_back(self.piece(part, mb, Does::Busy)),
                Part::Recompute { .. } => pieces.push_back(self.piece(part, mb, Does::Exposed)),
                Part::Collective {
                    window,
                    recompute,
                    busy,
                    ..
                } => {
                    let mut first = self.piece(part, mb, Does::Busy);
                    let frees = std::mem::take(&mut first.frees);
                    let work = self.size(recompute.0, mb);
                    let room = self.room(*window, first.left);
                    let inside = work.min(room.saturating_sub(self.size(busy.0, mb)));
                    hidden.push((*window, inside));
                    let rest = Piece {
                        left: work - inside,
                        does: Does::Exposed,
                        takes: 0,
                        frees,
                    };
                    pieces.extend([first, rest]);
                }
            }
        }
        for (window, inside) in hidden {
            *self.stages[s].figures.hidden.entry(window).or_default() += inside;
        }
        pieces
    }

    pub(super) fn end(&mut self, s: usize, action: Action) {
        let mb = action.micro_batch().0;
        let trains = self.schedule.stages[s]
            .iter()
            .any(|a| matches!(a, Action::Backward(_)));
        let stage = &mut self.stages[s];
        stage.running = false;
        let over = match action {
            Action::Forward(_) => {
                stage.forwards.push(mb);
                !trains
            }
            _ => {
                stage.backwards.push(mb);
                true
            }
        };
        if over {
            stage.bytes -= stage.held.remove(&mb).unwrap_or(0);
        }
    }
}
