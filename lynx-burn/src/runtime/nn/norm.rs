//! Layer norm that keeps its statistics instead of its intermediate results.

use burn::config::Config;
use burn::module::{Initializer, Module, Param};
use burn::prelude::*;
use burn::tensor::{DType, FloatDType};

use crate::runtime::ops;

/// Configuration of [`LayerNorm`]; the same as Burn's.
#[derive(Config, Debug)]
pub struct LayerNormConfig {
    /// The size of the last axis.
    pub d_model: usize,
    /// What is added to the variance.
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Whether there is a `beta`.
    #[config(default = true)]
    pub bias: bool,
}

/// Layer norm over the last axis: `(x - mean) / deviation * gamma + beta`.
///
/// Parameters, initial values and record are those of Burn's module, so that weights load either
/// way. Backward keeps the input, mean and deviation.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// The scale. `[d_model]`
    pub gamma: Param<Tensor<1>>,
    /// The offset. `[d_model]`
    pub beta: Option<Param<Tensor<1>>>,
    epsilon: f64,
}

impl LayerNormConfig {
    /// The module: scale one, offset zero.
    pub fn init(&self, device: &Device) -> LayerNorm {
        let vector = |initializer: Initializer| initializer.init([self.d_model], device);
        LayerNorm {
            gamma: vector(Initializer::Ones),
            beta: self.bias.then(|| vector(Initializer::Zeros)),
            epsilon: self.epsilon,
        }
    }
}

impl LayerNorm {
    /// What is added to the variance.
    #[must_use]
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Normalises the last axis.
    ///
    /// Half-precision input is normalised in single precision, as Burn does.
    ///
    /// # Shapes
    ///
    /// Input and output: `[..., d_model]`
    ///
    /// # Panics
    ///
    /// If the last axis of `input` is not `d_model`.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let gamma = self.gamma.val();
        let (width, [d_model]) = (input.dims()[D - 1], gamma.dims());
        assert_eq!(
            width, d_model,
            "layer norm of {d_model}: the last axis is {width}"
        );
        let beta = self.beta.as_ref().map(Param::val);
        match input.dtype() {
            DType::F16 | DType::BF16 => {
                let narrow: FloatDType = input.dtype().into();
                let wide = FloatDType::F32;
                let beta = beta.map(|beta| beta.cast(wide));
                ops::layer_norm(input.cast(wide), gamma.cast(wide), beta, self.epsilon).cast(narrow)
            }
            _ => ops::layer_norm(input, gamma, beta, self.epsilon),
        }
    }
}
