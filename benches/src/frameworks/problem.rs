//! What is trained. `benches/pytorch/gpt.py` says the same in Python, and the losses are compared.

use std::path::Path;

use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::prelude::*;
use burn_store::{ModuleSnapshot, SafetensorsStore};
use gpt_example::config::{GptConfig, Modules};
use gpt_example::data::micro_batches;
use gpt_example::model::Gpt;
use lynx_burn::plan::policy::Policy;
use lynx_burn::{MicroBatch, Trainer, TrainerBuilder};
use lynx_tests::oracle::{Plain, parameter_values};

/// The model.
pub const CONFIG: GptConfig = GptConfig {
    layers: 4,
    d_model: 256,
    heads: 8,
    context: 256,
    vocabulary: 256,
    dropout: 0.0,
    ..GptConfig::NANO
};
/// Rows of the batch, the same one in every step.
pub const BATCH: usize = 8;
/// Of every step.
pub const LEARNING_RATE: f64 = 1e-3;
const SEED: u64 = 1;

fn model(modules: Modules) -> Gpt {
    let device = Device::flex().autodiff();
    let model = Gpt::new(&CONFIG, SEED, &device).expect("a valid configuration");
    // Initial values are made when they are first read.
    let _ = parameter_values(&model);
    model.with_modules(modules)
}

fn optimizer() -> ModuleOptimizer {
    AdamWConfig::new().with_epsilon(1e-8).init()
}

/// The model with its initial values, under Burn's own loop.
pub fn plain(modules: Modules) -> Plain<Gpt> {
    Plain::new(model(modules), optimizer(), SEED)
}

/// The same on one stage.
///
/// # Errors
///
/// If the policy does not fit the model.
pub fn trainer(
    modules: Modules,
    policy: Policy,
) -> Result<Trainer<Gpt>, Box<dyn std::error::Error>> {
    let builder = TrainerBuilder::new().stages(1).policy(policy).seed(SEED);
    Ok(builder.train(model(modules), optimizer())?)
}

/// The batch.
pub fn batch() -> Vec<MicroBatch<Gpt>> {
    let text: Vec<u8> = (0..4096u64).map(|i| (i * i / 3 + 7 * i) as u8).collect();
    let windows: Vec<usize> = (0..BATCH).map(|row| row * 397).collect();
    let device = Device::flex();
    micro_batches(&text, &windows, CONFIG.context, 1, (&device, &device))
}

/// Writes the initial values, named as the parameters are.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_weights(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut store = SafetensorsStore::from_file(path).overwrite(true);
    model(Modules::Lynx).save_into(&mut store)?;
    Ok(())
}
