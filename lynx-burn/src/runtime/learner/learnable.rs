//! A chain as Burn's learner wants a model.

use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Content, Module, ModuleDisplay, Param, ParamId};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use burn::train::{InferenceStep, Learner, TrainOutput, TrainStep};

use super::output::StepOutput;
use crate::ids::{MicroBatchId, SegmentId};
use crate::runtime::boundary::{Boundary, ToDevice};
use crate::runtime::chain::{Chain, Context, Mode};
use crate::runtime::trainer::MicroBatch;

/// A chain that Burn's `Learner` can train.
///
/// Under the strategy of a [`TrainerBuilder`](crate::TrainerBuilder::strategy), a trainer takes the
/// steps. Under Burn's own, the uncut chain learns with plain autodiff and the seed 0, micro-batch by
/// micro-batch: on one `flex` device its steps have the same bits, so that the two can be compared.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Learnable<C> {
    chain: C,
    /// Steps taken, `[1]`: a part of the model's record, because chance depends on it.
    steps: Param<Tensor<1, Int>>,
    #[module(skip)]
    loan: Loan,
}

/// How the strategy gets at the learner's optimizer, which a learner shows to its model alone.
#[derive(Clone, Default)]
struct Loan(Arc<Mutex<LoanState>>);

#[derive(Default)]
enum LoanState {
    #[default]
    None,
    Asked,
    Given(ModuleOptimizer),
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Loan")
    }
}

impl Loan {
    fn replace(&self, state: LoanState) -> LoanState {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, state)
    }
}

impl<C: Module + ModuleDisplay> ModuleDisplay for Learnable<C> {
    fn custom_content(&self, content: Content) -> Option<Content> {
        content.add("chain", &self.chain).optional()
    }
}

impl<C: Chain> Learnable<C> {
    /// The chain, with all its segments.
    #[must_use]
    pub fn new(chain: C) -> Self {
        let device = chain.devices().into_iter().next().unwrap_or_default();
        Self {
            chain,
            steps: counted(ParamId::new(), 0, &device),
            loan: Loan::default(),
        }
    }

    /// The chain.
    #[must_use]
    pub fn into_inner(self) -> C {
        self.chain
    }

    /// The chain.
    pub fn chain(&self) -> &C {
        &self.chain
    }

    /// Optimizer steps that its parameters have seen.
    pub fn steps(&self) -> u64 {
        let steps: i64 = self.steps.val().into_scalar();
        steps.try_into().unwrap_or_default()
    }

    /// The same with other values, after so many steps.
    pub(super) fn after(self, chain: C, steps: u64) -> Self {
        let device = self.steps.val().device();
        Self {
            chain,
            steps: counted(self.steps.id, steps, &device),
            ..self
        }
    }

    /// The mean loss of each micro-batch by the uncut chain, `[1]`, and how much it counts.
    fn losses(
        &self,
        item: Vec<MicroBatch<C>>,
        mode: Mode,
    ) -> impl Iterator<Item = (Tensor<1>, f64)> {
        let total: usize = item.iter().map(|part| part.weight).sum();
        let step = self.steps();
        let segments = self.chain.segments().len();
        // Into autodiff if the model is there.
        let device = self.chain.devices().into_iter().next().unwrap_or_default();
        item.into_iter().enumerate().map(move |(index, part)| {
            let context =
                |segment| Context::new(mode, 0, step, MicroBatchId(index), SegmentId(segment));
            let input = part.input.map_tensors(&mut ToDevice(&device));
            let output = (0..segments).fold(input, |boundary, segment| {
                let context = context(segment);
                self.chain.forward_segment(segment, boundary, &context)
            });
            let target = part.target.map_tensors(&mut ToDevice(&device));
            let loss = self.chain.loss(output, target, &context(segments));
            (loss, part.weight as f64 / total as f64)
        })
    }
}

/// A copy of the learner's optimizer, states and all.
///
/// The learner has no word for this. It hands its optimizer to its model when gradients are to be
/// applied: it is asked to apply none, and the model takes a copy.
pub(super) fn optimizer_of<C: Chain + ModuleDisplay>(
    learner: &mut Learner<Learnable<C>>,
) -> Option<ModuleOptimizer> {
    let loan = learner.model().loan;
    loan.replace(LoanState::Asked);
    learner.optimizer_step(GradientsParams::new());
    match loan.replace(LoanState::None) {
        LoanState::Given(optimizer) => Some(optimizer),
        LoanState::None | LoanState::Asked => None,
    }
}

fn counted(id: ParamId, steps: u64, device: &Device) -> Param<Tensor<1, Int>> {
    let steps = TensorData::from([i64::try_from(steps).unwrap_or(i64::MAX)]);
    let steps = Tensor::from_data(steps, &device.clone().inner());
    Param::initialized(id, steps)
}

impl<C: Chain + ModuleDisplay> TrainStep for Learnable<C> {
    type Input = Vec<MicroBatch<C>>;
    type Output = StepOutput;

    fn step(&self, item: Vec<MicroBatch<C>>) -> TrainOutput<StepOutput> {
        let mut gradients = GradientsAccumulator::new();
        let mut mean = 0.0;
        for (loss, share) in self.losses(item, Mode::Training) {
            let part = loss.clone().mul_scalar(share).backward();
            gradients.accumulate(self, GradientsParams::from_grads(part, self));
            mean += share * loss.into_scalar::<f64>();
        }
        TrainOutput {
            grads: gradients.grads(),
            item: StepOutput::of_loss(mean),
        }
    }

    fn optimize(
        self,
        optimizer: &mut ModuleOptimizer,
        rate: ModuleLearningRate,
        gradients: GradientsParams,
    ) -> Self {
        let asked = self.loan.replace(LoanState::None);
        if let LoanState::Asked = asked {
            self.loan.replace(LoanState::Given(optimizer.clone()));
            return self;
        }
        let steps = self.steps();
        let learnt = optimizer.step(rate, self, gradients);
        let chain = learnt.chain.clone();
        learnt.after(chain, steps + 1)
    }
}

impl<C: Chain + ModuleDisplay> InferenceStep for Learnable<C> {
    type Input = Vec<MicroBatch<C>>;
    type Output = StepOutput;

    fn step(&self, item: Vec<MicroBatch<C>>) -> StepOutput {
        let losses = self.losses(item, Mode::Evaluation);
        let mean = losses.map(|(loss, share)| share * loss.into_scalar::<f64>());
        StepOutput::of_loss(mean.sum())
    }
}
