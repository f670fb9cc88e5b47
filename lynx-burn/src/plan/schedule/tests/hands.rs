//! What one stage of the naive execution has, and what each action does to it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Action;

/// One micro-batch on one chunk.
type Name = (usize, usize);

/// What one stage has in its hands while the naive execution runs.
#[derive(Default)]
pub(super) struct Hands {
    pub(super) done: usize,
    inputs: BTreeSet<Name>,
    outputs: BTreeSet<Name>,
    gradients_in: BTreeSet<Name>,
    gradients_out: BTreeSet<Name>,
    tapes: BTreeSet<Name>,
    /// What the first part of a backward leaves for the second.
    halves: BTreeSet<Name>,
    /// Per chunk, the order of gradients of inputs, and of what is added up.
    passed: BTreeMap<usize, Vec<usize>>,
    summed: BTreeMap<usize, Vec<usize>>,
    forwards: usize,
    pub(super) peak: usize,
}

/// Where a stage stands in a naive execution.
#[derive(Clone, Copy)]
pub(super) struct Stand {
    pub(super) stage: usize,
    pub(super) p: usize,
    pub(super) v: usize,
}

impl Stand {
    fn first(&self, chunk: usize) -> bool {
        self.stage == 0 && chunk == 0
    }

    fn last(&self, chunk: usize) -> bool {
        self.stage + 1 == self.p && chunk + 1 == self.v
    }
}

impl Hands {
    /// Carries out `action`; false when what it needs is not at hand.
    pub(super) fn carry_out(&mut self, at: Stand, action: Action) -> bool {
        let name @ (mb, chunk) = (action.micro_batch().0, action.chunk().0);
        self.done += 1;
        match action {
            Action::Forward(_) => {
                self.forwards += 1;
                let input = at.first(chunk) || self.inputs.remove(&name);
                if at.p == 1 {
                    self.inputs.insert((mb, chunk + 1));
                } else if !at.last(chunk) {
                    self.outputs.insert(name);
                }
                let held = self.tapes.insert(name);
                self.peak = self.peak.max(self.tapes.len() + self.halves.len());
                input && held
            }
            Action::Backward(_) => {
                self.summed.entry(chunk).or_default().push(mb);
                self.pass_gradient(at, name)
            }
            Action::BackwardInput(_) => {
                let passed = self.pass_gradient(at, name);
                passed && self.halves.insert(name)
            }
            Action::BackwardWeight(_) => {
                self.summed.entry(chunk).or_default().push(mb);
                self.halves.remove(&name)
            }
            Action::SendForward(_) => self.outputs.remove(&name),
            Action::SendBackward(_) => self.gradients_out.remove(&name),
            Action::RecvForward(_) => !at.first(chunk) && self.inputs.insert(name),
            Action::RecvBackward(_) => !at.last(chunk) && self.gradients_in.insert(name),
            // There is one replica.
            Action::ReduceGradients(_) => false,
        }
    }

    fn pass_gradient(&mut self, at: Stand, name: Name) -> bool {
        let (mb, chunk) = name;
        self.passed.entry(chunk).or_default().push(mb);
        let gradient = at.last(chunk) || self.gradients_in.remove(&name);
        if at.p == 1 {
            self.gradients_in
                .extend(chunk.checked_sub(1).map(|c| (mb, c)));
        } else if !at.first(chunk) {
            self.gradients_out.insert(name);
        }
        gradient && self.tapes.remove(&name)
    }

    /// Whether the stage did all of its part, everything in ascending order.
    pub(super) fn finished(&self, at: Stand, m: usize) -> bool {
        let hands = [
            &self.outputs,
            &self.gradients_out,
            &self.inputs,
            &self.gradients_in,
        ];
        // A stage that is alone hands the loss to itself.
        let is_loss = |name: &Name| at.p == 1 && name.1 == at.v;
        let empty = hands.iter().all(|hand| hand.iter().all(is_loss));
        let all: Vec<_> = (0..m).collect();
        let ascending = |order: &BTreeMap<usize, Vec<usize>>| {
            order.len() == at.v && order.values().all(|one| *one == all)
        };
        empty
            && self.tapes.is_empty()
            && self.halves.is_empty()
            && self.forwards == m * at.v
            && ascending(&self.passed)
            && ascending(&self.summed)
    }
}
