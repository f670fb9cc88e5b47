//! Plain Burn autodiff over the uncut model.
//!
//! Nothing of the runtime is used here but the chain's own methods: segments are called one after
//! the other on one tape, the loss is scaled by the micro-batch's share, gradients are added up
//! with Burn's accumulator in ascending micro-batch order.

use std::collections::BTreeMap;

use burn::module::{ModuleVisitor, Param};
use burn::optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use lynx_burn::ids::{MicroBatchId, SegmentId};
use lynx_burn::{Boundary, Chain, Context, MicroBatch, Mode, TensorMap};

/// A model, its optimizer and its place in training.
pub struct Plain<C> {
    /// The uncut model.
    pub model: C,
    optimizer: ModuleOptimizer,
    seed: u64,
    step: u64,
    clip_norm: Option<f64>,
}

/// What a backward over a step gave.
pub struct PlainStep {
    /// Each micro-batch's mean loss.
    pub losses: Vec<f64>,
    /// The summed gradients.
    pub gradients: GradientsParams,
}

impl<C: Chain> Plain<C> {
    /// Trains `model` in the ordinary way.
    pub fn new(model: C, optimizer: impl Into<ModuleOptimizer>, seed: u64) -> Self {
        Self {
            model,
            optimizer: optimizer.into(),
            seed,
            step: 0,
            clip_norm: None,
        }
    }

    /// Clips by the global norm, squares added in the order of the parameters' paths.
    #[must_use]
    pub fn clip_norm(mut self, norm: f64) -> Self {
        self.clip_norm = Some(norm);
        self
    }

    /// Forward and backward over the micro-batches.
    pub fn backward(&self, micro_batches: &[MicroBatch<C>]) -> PlainStep {
        let total: usize = micro_batches.iter().map(|batch| batch.weight).sum();
        let mut accumulator = GradientsAccumulator::new();
        let mut losses = Vec::new();
        for (index, batch) in micro_batches.iter().enumerate() {
            let loss = self.loss(MicroBatchId(index), batch, Mode::Training);
            losses.push(loss.clone().into_scalar::<f64>());
            let share = batch.weight as f64 / total as f64;
            let gradients = loss.mul_scalar(share).backward();
            accumulator.accumulate(
                &self.model,
                GradientsParams::from_grads(gradients, &self.model),
            );
        }
        PlainStep {
            losses,
            gradients: accumulator.grads(),
        }
    }

    /// The mean loss of one micro-batch.
    pub fn loss(&self, id: MicroBatchId, batch: &MicroBatch<C>, mode: Mode) -> Tensor<1> {
        let mut boundary = batch.input.clone().map_tensors(&mut OnAutodiff);
        let context = |segment| Context::new(mode, self.seed, self.step, id, SegmentId(segment));
        let segments = self.model.segments().len();
        for segment in 0..segments {
            boundary = self
                .model
                .forward_segment(segment, boundary, &context(segment));
        }
        let target = batch.target.clone().map_tensors(&mut OnAutodiff);
        self.model.loss(boundary, target, &context(segments))
    }

    /// One optimizer step; returns the micro-batches' losses.
    pub fn step(&mut self, learning_rate: f64, micro_batches: &[MicroBatch<C>]) -> Vec<f64> {
        let PlainStep {
            losses,
            mut gradients,
        } = self.backward(micro_batches);
        if let Some(limit) = self.clip_norm {
            clip(&self.model, &mut gradients, limit);
        }
        self.model = self
            .optimizer
            .step(learning_rate, self.model.clone(), gradients);
        self.step += 1;
        losses
    }
}

impl<C: Chain> Plain<C> {
    /// Lets the optimizer use the sum of `gradients`, added in their order.
    pub fn apply(&mut self, learning_rate: f64, gradients: Vec<GradientsParams>) {
        let mut sum = GradientsAccumulator::new();
        for part in gradients {
            sum.accumulate(&self.model, part);
        }
        self.model = self
            .optimizer
            .step(learning_rate, self.model.clone(), sum.grads());
        self.step += 1;
    }
}

/// Scales gradients to a global norm of at most `limit`.
fn clip<C: Module>(model: &C, gradients: &mut GradientsParams, limit: f64) {
    let mut squares = BTreeMap::new();
    walk(model, |path, param| {
        if let Some(sum) = param.square_sum(gradients) {
            squares.insert(path.to_owned(), sum);
        }
    });
    let norm = squares.values().sum::<f64>().sqrt();
    if norm > limit {
        walk(model, |_, param| param.scale(gradients, limit / norm));
    }
}

/// The bytes of every gradient, by parameter path.
pub fn gradient_bytes<C: Module>(
    model: &C,
    gradients: &GradientsParams,
) -> BTreeMap<String, TensorData> {
    let mut found = BTreeMap::new();
    walk(model, |path, param| {
        if let Some(data) = param.gradient(gradients) {
            found.insert(path.to_owned(), data);
        }
    });
    found
}

/// The value of every float parameter, by path.
pub fn parameter_values<C: Module>(model: &C) -> BTreeMap<String, TensorData> {
    let mut found = BTreeMap::new();
    walk(model, |path, param| {
        found.insert(path.to_owned(), param.value());
    });
    found
}

/// Fails unless both have the same paths, shapes and bytes.
///
/// # Panics
///
/// With the first path that differs.
pub fn assert_same_bytes(
    what: &str,
    found: &BTreeMap<String, TensorData>,
    expected: &BTreeMap<String, TensorData>,
) {
    let names = |of: &BTreeMap<String, TensorData>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{what}: which parameters");
    for (path, expected) in expected {
        let found = &found[path];
        assert_eq!(found.shape(), expected.shape(), "{what}: shape of {path}");
        assert!(
            found.as_bytes() == expected.as_bytes(),
            "{what}: bytes of {path}: {found} instead of {expected}"
        );
    }
}

/// Fails unless both have the same shape, and no element differs by more than this part of the
/// largest that is expected.
///
/// # Panics
///
/// With the first element that does.
pub fn assert_close(what: &str, found: &TensorData, expected: &TensorData, tolerance: f64) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let largest = expected.iter::<f64>().fold(0.0, |max, v| v.abs().max(max));
    for (a, b) in found.iter::<f64>().zip(expected.iter::<f64>()) {
        let allowed = tolerance * largest;
        assert!((a - b).abs() <= allowed, "{what}: {a} {b} of {largest}");
    }
}

/// A float parameter of any rank.
trait AnyParam {
    fn value(&self) -> TensorData;
    fn gradient(&self, gradients: &GradientsParams) -> Option<TensorData>;
    fn square_sum(&self, gradients: &GradientsParams) -> Option<f64>;
    fn scale(&self, gradients: &mut GradientsParams, factor: f64);
}

impl<const D: usize> AnyParam for Param<Tensor<D>> {
    fn value(&self) -> TensorData {
        self.val().inner().into_data()
    }

    fn gradient(&self, gradients: &GradientsParams) -> Option<TensorData> {
        Some(gradients.get::<D>(self.id)?.into_data())
    }

    fn square_sum(&self, gradients: &GradientsParams) -> Option<f64> {
        let gradient = gradients.get::<D>(self.id)?;
        Some(gradient.square().sum().into_scalar::<f64>())
    }

    fn scale(&self, gradients: &mut GradientsParams, factor: f64) {
        if let Some(gradient) = gradients.remove::<D>(self.id) {
            gradients.register(self.id, gradient.mul_scalar(factor));
        }
    }
}

fn walk<C: Module>(model: &C, seen: impl FnMut(&str, &dyn AnyParam)) {
    struct Walk<F>(Vec<String>, F);
    impl<F: FnMut(&str, &dyn AnyParam)> ModuleVisitor for Walk<F> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0.push(name.to_owned());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.0.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            (self.1)(&self.0.join("."), param);
        }
    }
    model.visit(&mut Walk(Vec::new(), seen));
}

/// Inputs of an uncut model live on the autodiff device, without gradients.
struct OnAutodiff;

impl TensorMap for OnAutodiff {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.autodiff()
    }
    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.autodiff()
    }
    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor.autodiff()
    }
    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        tensor.autodiff()
    }
}
