//! A model as the Burn Book writes them, trained with part of its activations recomputed.
//!
//! ```text
//! cargo run -p lynx-burn --example book_model --features flex --release
//! ```
//!
//! The model is an ordinary module with a `forward`. What `lynx-burn` needs beside it is the one
//! `impl Chain` below: where the model may be cut, and what runs between two cuts.

use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};

use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig};
use burn::nn::{Linear, LinearConfig, Relu};
use burn::optim::AdamConfig;
use burn::prelude::*;
use lynx_burn::plan::layout::Segment;
use lynx_burn::{Chain, Context, MicroBatch, StepReport, Trainer, TrainerBuilder};

/// Pixels of a picture's side.
pub(crate) const SIDE: usize = 12;
/// Kinds of pictures.
pub(crate) const CLASSES: usize = 4;
/// Steps between two saves.
const SAVE_EVERY: u64 = 20;

/// Two convolutions and two linear layers.
#[derive(Module, Debug)]
pub(crate) struct Model {
    first: Conv2d,
    second: Conv2d,
    pool: AdaptiveAvgPool2d,
    hidden: Linear,
    output: Linear,
    activation: Relu,
}

impl Model {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            first: Conv2dConfig::new([1, 8], [3, 3]).init(device),
            second: Conv2dConfig::new([8, 16], [3, 3]).init(device),
            pool: AdaptiveAvgPool2dConfig::new([4, 4]).init(),
            hidden: LinearConfig::new(16 * 4 * 4, 32).init(device),
            output: LinearConfig::new(32, CLASSES).init(device),
            activation: Relu::new(),
        }
    }

    /// Scores `[batch, classes]` of pictures `[batch, side * side]`.
    pub(crate) fn forward(&self, pictures: Tensor<2>) -> Tensor<2> {
        self.classify(self.look(pictures))
    }

    /// `[batch, side * side]` to `[batch, features]`
    fn look(&self, pictures: Tensor<2>) -> Tensor<2> {
        let [batch, _] = pictures.dims();
        let image = pictures.reshape([batch, 1, SIDE, SIDE]);
        let image = self.activation.forward(self.first.forward(image));
        let image = self.activation.forward(self.second.forward(image));
        self.pool.forward(image).flatten(1, 3)
    }

    /// `[batch, features]` to `[batch, classes]`
    fn classify(&self, features: Tensor<2>) -> Tensor<2> {
        let hidden = self.activation.forward(self.hidden.forward(features));
        self.output.forward(hidden)
    }
}

impl Chain for Model {
    type Boundary = Tensor<2>; // what passes from cut to cut: one row a picture
    type Target = Tensor<1, Int>; // the classes, [batch]

    fn segments(&self) -> Vec<Segment> {
        ["look", "classify"].map(Segment::outside).into()
    }

    // On one stage there is nothing to drop.
    fn keep(self, _: Range<usize>) -> Self {
        self
    }

    fn forward_segment(&self, index: usize, input: Tensor<2>, _: &Context) -> Tensor<2> {
        match index {
            0 => self.look(input),
            _ => self.classify(input),
        }
    }

    fn loss(&self, scores: Tensor<2>, classes: Tensor<1, Int>, _: &Context) -> Tensor<1> {
        let loss = CrossEntropyLossConfig::new().init(&scores.device());
        loss.forward(scores, classes)
    }
}

/// The convolutions' activations are large and quickly made again: only the scores' are kept.
pub(crate) fn builder() -> TrainerBuilder {
    let policy = lynx_burn::plan::policy::Policy::Selective(vec!["look".to_owned()]);
    TrainerBuilder::new().policy(policy)
}

/// The model, ready to be trained.
pub(crate) fn trainer() -> Result<Trainer<Model>, Box<dyn Error>> {
    let device = Device::default();
    // Of the initial values: two runs are then one.
    device.seed(1);
    let model = Model::new(&device);
    Ok(builder().train(model, AdamConfig::new().init())?)
}

/// Goes on from the last save in `folder`, or begins, and takes the steps that are left of `steps`;
/// `tell` is told of each.
pub(crate) fn train(
    folder: &Path,
    steps: u64,
    mut tell: impl FnMut(u64, &StepReport),
) -> Result<Trainer<Model>, Box<dyn Error>> {
    let mut trainer = trainer()?;
    trainer.resume_from(folder)?;
    while trainer.steps() < steps {
        let step = trainer.steps();
        let numbers: Vec<u64> = (16 * step..16 * (step + 1)).collect();
        let report = trainer.step(3e-3, numbers.chunks(8).map(pictures).collect())?;
        tell(step + 1, &report);
        if (step + 1).is_multiple_of(SAVE_EVERY) || step + 1 == steps {
            trainer.save_to(folder)?;
        }
    }
    Ok(trainer)
}

/// Made pictures with these numbers: a bright stripe whose place is the class, under noise.
pub(crate) fn pictures(numbers: &[u64]) -> MicroBatch<Model> {
    let device = Device::default();
    let count = numbers.len();
    let mut pixels = Vec::with_capacity(count * SIDE * SIDE);
    let mut classes = Vec::with_capacity(count);
    for &number in numbers {
        let class = number as usize % CLASSES;
        let stripe = class * SIDE / CLASSES..(class + 1) * SIDE / CLASSES;
        for pixel in 0..SIDE * SIDE {
            let shade = noise(number * (SIDE * SIDE) as u64 + pixel as u64);
            let lit = stripe.contains(&(pixel / SIDE));
            pixels.push(if lit { 0.5 + shade } else { shade });
        }
        classes.push(class as i32);
    }
    MicroBatch {
        input: Tensor::from_data(TensorData::new(pixels, [count, SIDE * SIDE]), &device),
        target: Tensor::from_data(TensorData::new(classes, [count]), &device),
        weight: count,
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
    let folder = folder.unwrap_or_else(|| PathBuf::from("runs/book_model"));
    let mut trainer = train(&folder, 200, |step, report| {
        if step == 1 || step.is_multiple_of(SAVE_EVERY) {
            println!("step {step:>3}  loss {:.4}", report.loss());
        }
    })?;
    // One stage has all of the model.
    let model = trainer.modules()?.swap_remove(0);
    let test: Vec<u64> = (100_000..100_064).collect();
    let test = pictures(&test);
    let classes = model.valid().forward(test.input).argmax(1).flatten(0, 1);
    let right: f64 = classes.equal(test.target).float().mean().into_scalar();
    println!(
        "{:.1} % of 64 other pictures are named rightly",
        100.0 * right
    );
    Ok(())
}
