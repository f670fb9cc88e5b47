//! A small residual MLP that learns a function of eight numbers, on two stages, with every second
//! block recomputed.
//!
//! ```text
//! cargo run -p lynx-burn --example residual_mlp --features flex --release
//! ```
//!
//! It saves every 50 steps. Press Ctrl-C, or kill it, and run it again: it goes on from its last save,
//! and ends with the numbers of a run that nobody broke. A folder to save in may follow `--`.

use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};

use burn::nn::{Gelu, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::AdamWConfig;
use burn::prelude::*;
use lynx_burn::plan::layout::Segment;
use lynx_burn::{Chain, Context, MicroBatch, StepReport, Trainer, TrainerBuilder};

/// Counts bytes, so that what tapes keep can be told.
#[global_allocator]
static ALLOCATOR: lynx_burn::memory::TrackingAllocator =
    lynx_burn::memory::TrackingAllocator::new();

/// Numbers that go in.
const INPUTS: usize = 8;
/// Width of the residual stream.
const WIDTH: usize = 32;
/// Residual blocks.
const BLOCKS: usize = 4;
/// Micro-batches of a step.
const MICRO_BATCHES: u64 = 4;
/// Samples of a micro-batch.
const SAMPLES: usize = 16;
/// Steps between two saves.
const SAVE_EVERY: u64 = 50;

/// A linear layer, blocks that add to their input, and a linear layer.
#[derive(Module, Debug)]
pub(crate) struct ResidualMlp {
    /// What a stage does not use is `None` there.
    widen: Option<Linear>,
    blocks: Vec<Option<Block>>,
    narrow: Option<Linear>,
}

#[derive(Module, Debug)]
struct Block {
    norm: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(device: &Device) -> Self {
        Self {
            norm: LayerNormConfig::new(WIDTH).init(device),
            up: LinearConfig::new(WIDTH, 4 * WIDTH).init(device),
            down: LinearConfig::new(4 * WIDTH, WIDTH).init(device),
        }
    }

    /// `[batch, width]` to the same.
    fn forward(&self, stream: Tensor<2>) -> Tensor<2> {
        let hidden = self.up.forward(self.norm.forward(stream.clone()));
        stream + self.down.forward(Gelu::new().forward(hidden))
    }
}

impl ResidualMlp {
    fn new(device: &Device) -> Self {
        Self {
            widen: Some(LinearConfig::new(INPUTS, WIDTH).init(device)),
            blocks: (0..BLOCKS).map(|_| Some(Block::new(device))).collect(),
            narrow: Some(LinearConfig::new(WIDTH, 1).init(device)),
        }
    }
}

impl Chain for ResidualMlp {
    /// `[batch, inputs]`, then `[batch, width]`, then `[batch, 1]`.
    type Boundary = Tensor<2>;
    /// `[batch, 1]`
    type Target = Tensor<2>;

    fn segments(&self) -> Vec<Segment> {
        let blocks = (0..self.blocks.len()).map(|layer| Segment::in_layer(layer, "block"));
        let first = std::iter::once(Segment::outside("widen"));
        first
            .chain(blocks)
            .chain([Segment::outside("narrow")])
            .collect()
    }

    fn keep(mut self, range: Range<usize>) -> Self {
        let last = self.blocks.len() + 1;
        self.widen = self.widen.filter(|_| range.contains(&0));
        self.narrow = self.narrow.filter(|_| range.contains(&last));
        for (index, block) in self.blocks.iter_mut().enumerate() {
            if !range.contains(&(index + 1)) {
                *block = None;
            }
        }
        self
    }

    fn forward_segment(&self, index: usize, input: Tensor<2>, _: &Context) -> Tensor<2> {
        let kept = "a segment runs where its parameters were kept";
        if index == 0 {
            self.widen.as_ref().expect(kept).forward(input)
        } else if index <= self.blocks.len() {
            self.blocks[index - 1].as_ref().expect(kept).forward(input)
        } else {
            self.narrow.as_ref().expect(kept).forward(input)
        }
    }

    fn loss(&self, output: Tensor<2>, target: Tensor<2>, _: &Context) -> Tensor<1> {
        (output - target).square().mean()
    }
}

/// The model on two stages, those of its layers recomputed whose number is even.
pub(crate) fn trainer() -> Result<Trainer<ResidualMlp>, Box<dyn Error>> {
    let device = Device::default();
    // Of the initial values: two runs are then one.
    device.seed(1);
    let model = ResidualMlp::new(&device);
    let trainer = TrainerBuilder::new()
        .stages(2)
        .policy("every:2".parse()?)
        .clip_norm(1.0);
    Ok(trainer.train(model, AdamWConfig::new().init())?)
}

/// Goes on from the last save in `folder`, or begins, and takes the steps that are left of `steps`;
/// `tell` is told of each.
pub(crate) fn train(
    folder: &Path,
    steps: u64,
    mut tell: impl FnMut(u64, &StepReport),
) -> Result<(), Box<dyn Error>> {
    let mut trainer = trainer()?;
    trainer.resume_from(folder)?;
    while trainer.steps() < steps {
        let step = trainer.steps();
        let parts = (0..MICRO_BATCHES).map(|part| samples(step * MICRO_BATCHES + part));
        let report = trainer.step(3e-3, parts.collect())?;
        tell(step + 1, &report);
        if (step + 1).is_multiple_of(SAVE_EVERY) || step + 1 == steps {
            trainer.save_to(folder)?;
        }
    }
    Ok(())
}

/// The samples that follow from their number: what a run learns from must not depend on where it was
/// broken.
fn samples(number: u64) -> MicroBatch<ResidualMlp> {
    let device = Device::default();
    let first = number * (SAMPLES * INPUTS) as u64;
    let inputs: Vec<f32> = (0..SAMPLES * INPUTS)
        .map(|index| noise(first + index as u64))
        .collect();
    let rows = inputs.chunks(INPUTS);
    let targets: Vec<f32> = rows
        .map(|row| (2.0 * row[0] * row[1]).sin() + row[2..].iter().sum::<f32>().abs())
        .collect();
    MicroBatch {
        input: Tensor::from_data(TensorData::new(inputs, [SAMPLES, INPUTS]), &device),
        target: Tensor::from_data(TensorData::new(targets, [SAMPLES, 1]), &device),
        weight: SAMPLES,
    }
}

/// A number in `[-1, 1)` that looks like chance and is a function of `counter` (SplitMix64).
fn noise(counter: u64) -> f32 {
    let mut bits = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits >> 40) as f32 / (1u32 << 23) as f32 - 1.0
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from("runs/residual_mlp"));
    train(&folder, 400, |step, report| {
        if step == 1 || step.is_multiple_of(SAVE_EVERY) {
            let kept: Vec<String> = report.backward.stages.iter().map(kept).collect();
            println!(
                "step {step:>3}  loss {:.4}  kept {}",
                report.loss(),
                kept.join(" + ")
            );
        }
    })?;
    println!(
        "saved in {}: run it again, and nothing is left to do",
        folder.display()
    );
    Ok(())
}

/// The most that a stage kept between forward and backward.
fn kept(stage: &lynx_burn::StageReport) -> String {
    stage.retained_peak.to_string()
}
