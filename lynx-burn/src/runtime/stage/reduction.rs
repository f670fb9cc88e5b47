//! A stage's side of the sum of gradients over replicas.
//!
//! What was reduced in an earlier run and not applied yet is the same on all replicas already, and
//! is kept apart meanwhile: only the gradients of the run under way are summed.

use burn::module::ParamId;
use burn::prelude::*;

use super::Stage;
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::Parts;
use crate::runtime::gradient::Gradient;
use crate::runtime::parameters;

impl<C: Chain> Stage<C> {
    /// Begins sums of gradients that will be reduced by themselves.
    pub(crate) fn keep_gradients_apart(&mut self) {
        self.accumulator.keep_apart();
    }

    /// Who the parts belong to, and the parts: what says which parameters have a gradient here,
    /// shape `[parameters]`, and a gradient for each of them, zeros where there is none. All
    /// replicas of a stage have the same parameters in the same order.
    pub(crate) fn gradients_to_reduce(&mut self) -> (Vec<ParamId>, Parts) {
        let mut owners: Vec<ParamId> = Vec::new();
        let mut parts: Parts = Vec::new();
        let mut there: Vec<f32> = Vec::new();
        let total = self.accumulator.total_mut();
        parameters::visit(&self.module, |path, parameter| {
            let id = parameter.id();
            // Two modules may share a parameter.
            if !parameter.info(path).trainable || owners.contains(&id) {
                return;
            }
            let own = total.remove(&id);
            there.push(f32::from(u8::from(own.is_some())));
            parts.push(own.unwrap_or_else(|| parameter.value().zeros()));
            owners.push(id);
        });
        if !owners.is_empty() {
            let count = there.len();
            let there = Tensor::<1>::from_data(TensorData::new(there, [count]), &self.device);
            parts.insert(0, Gradient::new(there));
        }
        (owners, parts)
    }

    /// Takes the sums of what all replicas handed over. A parameter that has a gradient on none of
    /// them has none.
    pub(crate) fn take_reduced(&mut self, owners: &[ParamId], sums: Parts) {
        let mut sums = sums.into_iter();
        let Some(there) = sums.next() else {
            return;
        };
        let there: Vec<f32> = there.data().iter().collect();
        let sums = owners.iter().zip(sums).zip(there);
        let sums = sums.filter(|(_, there)| *there > 0.0);
        self.accumulator
            .put_reduced(sums.map(|((id, sum), _)| (*id, sum)));
    }
}
