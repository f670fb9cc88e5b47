//! Small ones of the example's GPT, and the same text for all.

use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::data::micro_batches;
use gpt_example::model::Gpt;
use lynx_burn::MicroBatch;

/// So many layers, 32 wide, for windows of 16 bytes.
pub fn config(layers: usize, dropout: f64) -> GptConfig {
    GptConfig {
        layers,
        d_model: 32,
        heads: 4,
        context: 16,
        vocabulary: 256,
        dropout,
        ..GptConfig::NANO
    }
}

/// The model, with the same parameters every time.
///
/// # Panics
///
/// If there is no such model.
pub fn gpt(config: &GptConfig) -> Gpt {
    Gpt::new(config, 3, &Device::flex().autodiff()).expect("a valid configuration")
}

/// So many windows, dealt to so many micro-batches.
pub fn batches(config: &GptConfig, windows: usize, parts: usize) -> Vec<MicroBatch<Gpt>> {
    later_batches(config, windows, parts, 0)
}

/// The same of windows that begin so many bytes later in the text.
pub fn later_batches(
    config: &GptConfig,
    windows: usize,
    parts: usize,
    later: usize,
) -> Vec<MicroBatch<Gpt>> {
    let text: Vec<u8> = (0..4000u32).map(|i| (i * i % 253) as u8).collect();
    let windows: Vec<usize> = (0..windows).map(|i| (i * 611 + later) % 3000).collect();
    let device = Device::flex();
    micro_batches(&text, &windows, config.context, parts, (&device, &device))
}
