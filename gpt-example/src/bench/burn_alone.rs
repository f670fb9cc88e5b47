//! The uncut model in a plain loop, with and without Burn's own checkpointing.

use std::time::Instant;

use burn::optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use lynx_burn::ids::{MicroBatchId, SegmentId};
use lynx_burn::memory::{live_bytes, peak_bytes, reset_peak};
use lynx_burn::{Boundary, Chain, Context, MicroBatch, Mode, TensorMap};

use super::contender::optimizer;
use super::ground::{SEED, on_own_core};
use super::row::Sample;
use super::{BenchError, Ground};
use crate::model::Gpt;

/// Plain Burn.
pub(super) struct BurnAlone {
    pub(super) name: &'static str,
    model: Gpt,
    optimizer: ModuleOptimizer,
    step: u64,
}

impl BurnAlone {
    /// Both ways, for a setting of one thread.
    pub(super) fn ways(ground: &Ground) -> Result<Vec<Self>, BenchError> {
        if ground.setting.ranks * ground.setting.stages > 1 {
            return Ok(Vec::new());
        }
        let device = Device::flex().autodiff();
        let of = |name, device: &Device| -> Result<Self, BenchError> {
            Ok(Self {
                name,
                model: Gpt::new(&ground.setting.config, SEED, device)?
                    .with_modules(ground.setting.modules),
                optimizer: optimizer(),
                step: 0,
            })
        };
        Ok(vec![
            of("plain Burn", &device)?,
            of(
                "Burn's gradient_checkpointing",
                &device.clone().gradient_checkpointing(),
            )?,
        ])
    }

    /// One step, as a trainer takes it.
    pub(super) fn step(
        &mut self,
        learning_rate: f64,
        batches: &[MicroBatch<Gpt>],
    ) -> Result<(Sample, Vec<f64>), BenchError> {
        let before = live_bytes();
        reset_peak();
        let begin = Instant::now();
        let (losses, gradients) = on_own_core(|| Ok(self.backward(batches)))?;
        let seconds = begin.elapsed().as_secs_f64();
        let allocated = peak_bytes().saturating_sub(before);
        let model = self.model.clone();
        self.model = self.optimizer.step(learning_rate, model, gradients);
        self.step += 1;
        let sample = Sample {
            seconds,
            allocated,
            ..Sample::default()
        };
        Ok((sample, losses))
    }

    fn backward(&self, batches: &[MicroBatch<Gpt>]) -> (Vec<f64>, GradientsParams) {
        let total: usize = batches.iter().map(|batch| batch.weight).sum();
        let mut sums = GradientsAccumulator::new();
        let mut losses = Vec::with_capacity(batches.len());
        for (index, batch) in batches.iter().enumerate() {
            let loss = self.loss(MicroBatchId(index), batch);
            losses.push(loss.clone().into_scalar::<f64>());
            let share = batch.weight as f64 / total as f64;
            let gradients = loss.mul_scalar(share).backward();
            let gradients = GradientsParams::from_grads(gradients, &self.model);
            sums.accumulate(&self.model, gradients);
        }
        (losses, sums.grads())
    }

    fn loss(&self, id: MicroBatchId, batch: &MicroBatch<Gpt>) -> Tensor<1> {
        let mut entry = OnAutodiff(self.model.devices().remove(0));
        let mut boundary = batch.input.clone().map_tensors(&mut entry);
        let context =
            |segment| Context::new(Mode::Training, SEED, self.step, id, SegmentId(segment));
        let segments = self.model.segments().len();
        for segment in 0..segments {
            let forward = Chain::forward_segment;
            boundary = forward(&self.model, segment, boundary, &context(segment));
        }
        let target = batch.target.clone().map_tensors(&mut entry);
        self.model.loss(boundary, target, &context(segments))
    }
}

/// Puts what comes from outside where the model is.
struct OnAutodiff(Device);

impl TensorMap for OnAutodiff {
    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        Tensor::from_data(tensor.into_data(), &self.0)
    }
}
