//! How a forward or a backward begins and ends.

use std::collections::VecDeque;

use super::super::super::costs::{Ahead, CoolDown, Part, StageCosts};
use super::{Does, Name, Piece, World, name};
use crate::plan::schedule::Action;

impl World<'_> {
    pub(super) fn begin(&mut self, s: usize, action: Action) {
        let name = name(action);
        let pieces = match action {
            Action::Forward(_) => self.of_forward(s, name),
            Action::BackwardWeight(_) => {
                let split = self.of_chunk(s, name.1).split.as_ref();
                let parts = split.unwrap().weight.iter();
                parts
                    .map(|part| self.piece(part, name.0, Does::Busy))
                    .collect()
            }
            Action::ReduceGradients(_) => VecDeque::from([Piece {
                left: self.of_chunk(s, name.1).reduction.0,
                does: Does::Busy,
                takes: 0,
                frees: 0,
            }]),
            _ => self.of_backward(s, action),
        };
        let stage = &mut self.stages[s];
        let exposed = pieces.iter().filter(|p| matches!(p.does, Does::Exposed));
        stage.figures.exposed += exposed.map(|piece| piece.left).sum::<u64>();
        stage.take(name, pieces.front().map_or(0, |piece| piece.takes));
        stage.pieces = pieces;
        stage.running = true;
    }

    fn of_chunk(&self, s: usize, chunk: usize) -> &StageCosts {
        &self.costs.stages[chunk * self.stages.len() + s]
    }

    /// The last backwards of the chunk, if the one that comes next is one.
    fn cool_down(&self, s: usize, chunk: usize) -> Option<&CoolDown> {
        let makes_gradient = |a: &&Action| {
            let is_it = matches!(a, Action::Backward(_) | Action::BackwardInput(_));
            is_it && a.chunk().0 == chunk
        };
        let all = self.schedule.stages[s].iter().filter(makes_gradient);
        let done = self.stages[s].backwards.iter().filter(|b| b.1 == chunk);
        let left = all.count() - done.count();
        let last = self.of_chunk(s, chunk).cool_down.as_ref();
        last.filter(|last| left <= last.backwards)
    }

    /// The parts of the backward that comes next, if it is whole, and the work
    /// ahead of it.
    pub(super) fn backward_costs(&self, s: usize, (_, chunk): Name) -> (&[Part], Ahead) {
        let costs = self.of_chunk(s, chunk);
        match self.cool_down(s, chunk) {
            Some(last) => (&last.backward, last.ahead),
            None => (&costs.backward, costs.ahead),
        }
    }

    fn input_parts(&self, s: usize, chunk: usize) -> &[Part] {
        let split = self.of_chunk(s, chunk).split.as_ref();
        match self.cool_down(s, chunk) {
            Some(last) => last.input.as_ref().unwrap(),
            None => &split.unwrap().input,
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

    fn of_forward(&self, s: usize, (mb, chunk): Name) -> VecDeque<Piece> {
        let pieces = self
            .of_chunk(s, chunk)
            .forward
            .iter()
            .map(|part| match part {
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

    fn of_backward(&mut self, s: usize, action: Action) -> VecDeque<Piece> {
        let begun = self.stages[s].ahead.take();
        let name @ (mb, chunk) = name(action);
        let (parts, ahead) = self.backward_costs(s, name);
        let parts = match action {
            Action::BackwardInput(_) => self.input_parts(s, chunk),
            _ => parts,
        };
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
        let name = name(action);
        let trains = self.schedule.stages[s]
            .iter()
            .any(|a| matches!(a, Action::Backward(_) | Action::BackwardInput(_)));
        let stage = &mut self.stages[s];
        stage.running = false;
        let over = match action {
            Action::Forward(_) => {
                stage.forwards.push(name);
                !trains
            }
            Action::BackwardInput(_) => {
                stage.backwards.push(name);
                false
            }
            Action::BackwardWeight(_) | Action::ReduceGradients(_) => true,
            _ => {
                stage.backwards.push(name);
                true
            }
        };
        if over {
            stage.bytes -= stage.held.remove(&name).unwrap_or(0);
        }
    }
}
