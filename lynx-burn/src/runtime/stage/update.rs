//! From sums of gradients to new parameters.

use std::collections::{BTreeMap, HashMap};

use burn::module::ParamId;
use burn::optim::GradientsParams;
use burn::prelude::*;

use super::Stage;
use crate::runtime::chain::Chain;
use crate::runtime::gradient::Gradient;
use crate::runtime::parameters;

/// What was set aside.
pub(crate) type Aside = (HashMap<ParamId, Gradient>, (i64, i64));

impl<C: Chain> Stage<C> {
    /// The summed gradients by parameter path; leaves them where they are.
    pub(crate) fn gradients(&self) -> BTreeMap<String, Gradient> {
        let mut found = BTreeMap::new();
        parameters::visit(&self.module, |path, parameter| {
            if let Some(gradient) = self.accumulator.total().get(&parameter.id()) {
                found.insert(path.to_owned(), gradient.clone());
            }
        });
        found
    }

    /// The parameters by path.
    pub(crate) fn parameters(&self) -> BTreeMap<String, TensorData> {
        let mut found = BTreeMap::new();
        parameters::visit(&self.module, |path, parameter| {
            found.insert(path.to_owned(), parameter.value().data());
        });
        found
    }

    /// Takes the summed gradients of the parameters at `paths` out.
    pub(crate) fn take_gradients(&mut self, paths: &[String]) -> BTreeMap<String, Gradient> {
        let mut found = BTreeMap::new();
        let total = self.accumulator.total_mut();
        parameters::visit(&self.module, |path, parameter| {
            if paths.iter().any(|wanted| wanted == path)
                && let Some(gradient) = total.remove(&parameter.id())
            {
                found.insert(path.to_owned(), gradient);
            }
        });
        found
    }

    /// Puts gradients in.
    pub(crate) fn put_gradients(&mut self, mut gradients: BTreeMap<String, Gradient>) {
        let device = self.device.clone();
        let total = self.accumulator.total_mut();
        parameters::visit(&self.module, |path, parameter| {
            if let Some(gradient) = gradients.remove(path) {
                total.insert(parameter.id(), gradient.moved_to(&device));
            }
        });
    }

    /// Sum of squares of each summed gradient, by path.
    pub(crate) fn square_sums(&self) -> Vec<(String, f64)> {
        let mut paths = Vec::new();
        let mut sums = Vec::new();
        parameters::visit(&self.module, |path, parameter| {
            if let Some(gradient) = self.accumulator.total().get(&parameter.id()) {
                paths.push(path.to_owned());
                sums.push(gradient.square_sum());
            }
        });
        if sums.is_empty() {
            return Vec::new();
        }
        // One read for all: on a device each would wait for the queue.
        let sums = Tensor::cat(sums, 0).into_data();
        paths.into_iter().zip(sums.iter::<f64>()).collect()
    }

    /// Takes away what a run would change: the summed gradients, and what is known of the last run's
    /// forwards.
    pub(crate) fn set_aside(&mut self) -> Aside {
        (self.accumulator.take(), self.forward_growth)
    }

    /// Puts it in the place of what there is.
    pub(crate) fn put_back(&mut self, (gradients, growth): Aside) {
        self.discard();
        *self.accumulator.total_mut() = gradients;
        self.forward_growth = growth;
    }

    /// Forgets the summed gradients.
    pub(crate) fn discard(&mut self) {
        let _ = self.accumulator.take();
    }

    /// Scales the summed gradients, lets the optimizer use them, and begins anew.
    pub(crate) fn apply(&mut self, learning_rate: f64, scale: Option<f64>) {
        self.join_streams();
        let mut sums = self.accumulator.take();
        let mut gradients = GradientsParams::new();
        parameters::visit(&self.module, |_, parameter| {
            if let Some(gradient) = sums.remove(&parameter.id()) {
                let gradient = match scale {
                    Some(scale) => gradient.scaled(scale),
                    None => gradient,
                };
                parameter.put(&mut gradients, gradient);
            }
        });
        self.module = self
            .optimizer
            .step(learning_rate, self.module.clone(), gradients);
        self.cut_again();
    }
}
