//! Numbers that come out the same on every device.

use burn::prelude::*;
use burn::tensor::TensorData;
use lynx_burn::kernels::random::{StreamKey, fill_normal};

pub(crate) fn key(seed: u64) -> StreamKey {
    StreamKey {
        seed,
        step: 3,
        micro_batch: 1,
        segment: 2,
        site: 0,
    }
}

/// Standard normal numbers.
pub(crate) fn normal<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    let mut values = vec![0.0f32; shape.iter().product()];
    fill_normal(key(seed), 1.0, &mut values);
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The same as a parameter would be.
pub(crate) fn leaf<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    normal(seed, shape, device).require_grad()
}

/// Classes below `classes`, and some rows that do not count.
pub(crate) fn targets(rows: usize, classes: usize, device: &Device) -> Tensor<1, Int> {
    let values: Vec<i32> = (0..rows)
        .map(|row| match row % 5 {
            3 => -1,
            _ => ((row * 7 + 2) % classes) as i32,
        })
        .collect();
    Tensor::from_data(TensorData::new(values, [rows]), device)
}
