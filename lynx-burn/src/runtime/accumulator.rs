//! Gradients of a stage's parameters, summed in the order that makes them exact.
//!
//! The sum over micro-batches is taken in ascending order, and what one micro-batch contributes is
//! finished before it is added: a parameter of several segments first collects their
//! contributions, from the last segment to the first, as Burn's backward over the uncut model
//! does. A parameter of one segment needs no such waiting.

use std::collections::HashMap;

use burn::module::{Module, ParamId};

use super::gradient::Gradient;
use super::parameters;

/// Sums of gradients by parameter.
#[derive(Default)]
pub(crate) struct Accumulator {
    total: HashMap<ParamId, Gradient>,
    /// Sums of earlier runs, while those of a run under way are kept apart from them.
    earlier: HashMap<ParamId, Gradient>,
    /// Contributions of the micro-batch under way to parameters that earlier segments use too.
    pending: HashMap<ParamId, Gradient>,
    /// The first segment that uses a parameter.
    first_use: HashMap<ParamId, usize>,
}

impl Accumulator {
    /// For the modules listed with their first segment.
    pub(crate) fn new<'a, M: Module + 'a>(modules: impl Iterator<Item = (usize, &'a M)>) -> Self {
        let mut empty = Self::default();
        empty.deal_again(modules);
        empty
    }

    /// The same sums for modules that are cut in another way.
    pub(crate) fn deal_again<'a, M: Module + 'a>(
        &mut self,
        modules: impl Iterator<Item = (usize, &'a M)>,
    ) {
        self.first_use.clear();
        for (segment, module) in modules {
            parameters::visit(module, |_, parameter| {
                let first = self.first_use.entry(parameter.id()).or_insert(segment);
                *first = segment.min(*first);
            });
        }
    }

    /// Adds what one micro-batch's backward found in the piece that begins at `segment`.
    ///
    /// Pieces of a micro-batch must come in descending order, micro-batches in ascending order.
    pub(crate) fn add(&mut self, segment: usize, found: Vec<(ParamId, Gradient)>) {
        for (id, gradient) in found {
            let waits = self
                .first_use
                .get(&id)
                .is_some_and(|&first| first < segment);
            let sum = match self.pending.remove(&id) {
                Some(later) => later.plus(gradient),
                None => gradient,
            };
            if waits {
                self.pending.insert(id, sum);
            } else {
                add(&mut self.total, id, sum);
            }
        }
    }

    /// Adds what still waits for segments that this backward did not reach: below a frozen
    /// beginning, nothing goes on.
    pub(crate) fn settle(&mut self) {
        for (id, gradient) in self.pending.drain() {
            add(&mut self.total, id, gradient);
        }
    }

    /// Begins sums of their own for a run, which [`put_reduced`](Self::put_reduced) adds to those
    /// before it.
    pub(crate) fn keep_apart(&mut self) {
        self.earlier = std::mem::take(&mut self.total);
    }

    /// Adds the run's sums, which have been taken out and come back as those of all replicas, to
    /// those of earlier runs.
    pub(crate) fn put_reduced(&mut self, sums: impl Iterator<Item = (ParamId, Gradient)>) {
        self.total = std::mem::take(&mut self.earlier);
        for (id, sum) in sums {
            add(&mut self.total, id, sum);
        }
    }

    /// The sums, for reading and replacing.
    pub(crate) fn total(&self) -> &HashMap<ParamId, Gradient> {
        &self.total
    }

    pub(crate) fn total_mut(&mut self) -> &mut HashMap<ParamId, Gradient> {
        &mut self.total
    }

    /// Takes the sums and begins anew.
    pub(crate) fn take(&mut self) -> HashMap<ParamId, Gradient> {
        self.pending.clear();
        self.earlier.clear();
        std::mem::take(&mut self.total)
    }
}

fn add(sums: &mut HashMap<ParamId, Gradient>, id: ParamId, gradient: Gradient) {
    let sum = match sums.remove(&id) {
        Some(sum) => sum.plus(gradient),
        None => gradient,
    };
    sums.insert(id, sum);
}
