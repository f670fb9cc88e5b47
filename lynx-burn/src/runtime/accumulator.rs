//! Gradients of a stage's parameters, summed in the order that makes them exact.
//!
//! The sum over micro-batches is taken in ascending order, and what one micro-batch contributes is
//! finished before it is added: a parameter of several segments first collects their
//! contributions, from the last segment to the first, as Burn's backward over the uncut model
//! does. A parameter of one segment needs no such waiting.

use std::collections::HashMap;

use burn::module::{Module, ParamId};
use burn::optim::GradientsParams;

use super::parameters;

/// Sums of gradients by parameter.
#[derive(Default)]
pub(crate) struct Accumulator {
    total: GradientsParams,
    /// Contributions of the micro-batch under way to parameters that earlier segments use too.
    pending: GradientsParams,
    /// The first segment that uses a parameter.
    first_use: HashMap<ParamId, usize>,
}

impl Accumulator {
    /// For the segments that `modules` lists with the parameters each uses.
    pub(crate) fn new<'a, M: Module + 'a>(modules: impl Iterator<Item = (usize, &'a M)>) -> Self {
        let mut first_use = HashMap::new();
        for (segment, module) in modules {
            parameters::visit(module, |_, parameter| {
                let first = first_use.entry(parameter.id()).or_insert(segment);
                *first = segment.min(*first);
            });
        }
        Self {
            first_use,
            ..Self::default()
        }
    }

    /// Adds what one micro-batch's backward over `segment` found.
    ///
    /// Segments of a micro-batch must come in descending order, micro-batches in ascending order.
    pub(crate) fn add<M: Module>(
        &mut self,
        segment: usize,
        module: &M,
        mut found: GradientsParams,
    ) {
        parameters::visit(module, |_, parameter| {
            let waits = self
                .first_use
                .get(&parameter.id())
                .is_some_and(|&first| first < segment);
            parameter.add(&mut self.pending, &mut found);
            if !waits {
                parameter.add(&mut self.total, &mut self.pending);
            }
        });
    }

    /// Adds what waits for segments that this backward did not reach: below a frozen beginning,
    /// nothing goes on.
    pub(crate) fn settle<M: Module>(&mut self, module: &M) {
        if !self.pending.is_empty() {
            parameters::visit(module, |_, parameter| {
                parameter.add(&mut self.total, &mut self.pending);
            });
        }
    }

    pub(crate) fn total(&self) -> &GradientsParams {
        &self.total
    }

    pub(crate) fn total_mut(&mut self) -> &mut GradientsParams {
        &mut self.total
    }

    /// Takes the sums and begins anew.
    pub(crate) fn take(&mut self) -> GradientsParams {
        self.pending = GradientsParams::new();
        std::mem::take(&mut self.total)
    }
}
