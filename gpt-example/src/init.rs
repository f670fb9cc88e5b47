//! Initial values that do not depend on who makes them.

use burn::module::{Initializer, Param, ParamId};
use burn::nn::Embedding;
use burn::prelude::*;
use lynx_burn::nn::Linear;
use lynx_kernels::random::{StreamKey, fill_normal};

/// No training step has this number, so no dropout mask shares a stream with a parameter.
const BEFORE_TRAINING: u64 = u64::MAX;

/// Makes the parameters of one part of the model, each from a stream of its own.
pub(crate) struct Initial<'a> {
    next: StreamKey,
    device: &'a Device,
}

impl<'a> Initial<'a> {
    /// `part` tells the parts of the model apart.
    pub(crate) fn new(seed: u64, part: usize, device: &'a Device) -> Self {
        Self {
            next: StreamKey {
                seed,
                step: BEFORE_TRAINING,
                micro_batch: 0,
                segment: part as u32,
                site: 0,
            },
            device,
        }
    }

    /// Weight `[input, output]` with this standard deviation, bias zero.
    pub(crate) fn linear(&mut self, input: usize, output: usize, deviation: f64) -> Linear {
        Linear {
            weight: self.normal([input, output], deviation),
            bias: Some(Initializer::Zeros.init([output], self.device)),
        }
    }

    /// Weight `[count, d_model]`.
    pub(crate) fn embedding(&mut self, count: usize, d_model: usize) -> Embedding {
        Embedding {
            weight: self.normal([count, d_model], 0.02),
        }
    }

    /// A parameter whose values are drawn when it is first read, on the device it is on by then.
    fn normal(&mut self, shape: [usize; 2], deviation: f64) -> Param<Tensor<2>> {
        let key = self.next;
        self.next.site += 1;
        let make = move |device: &Device, require_grad: bool| {
            let mut values = vec![0.0; shape[0] * shape[1]];
            fill_normal(key, deviation, &mut values);
            Tensor::from_data(TensorData::new(values, shape), device).set_require_grad(require_grad)
        };
        Param::uninitialized(
            ParamId::new(),
            make,
            self.device.clone(),
            true,
            shape.into(),
        )
    }
}
