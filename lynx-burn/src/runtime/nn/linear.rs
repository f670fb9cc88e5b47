//! The product with a weight.

use burn::config::Config;
use burn::module::{Initializer, Module, Param};
use burn::prelude::*;

use crate::runtime::ops;

/// Configuration of [`Linear`]; the same as Burn's, whose weights lie by rows.
#[derive(Config, Debug)]
pub struct LinearConfig {
    /// The size of the input's last axis.
    pub d_input: usize,
    /// The size of the output's last axis.
    pub d_output: usize,
    /// Whether there is a bias.
    #[config(default = true)]
    pub bias: bool,
    /// What weight and bias are drawn from.
    #[config(
        default = "Initializer::KaimingUniform { gain: 1.0 / 3f64.sqrt(), fan_out_only: false }"
    )]
    pub initializer: Initializer,
}

/// `input weight + bias`.
///
/// Parameters, initial values and record are those of Burn's module, so that weights load either way.
/// On the CPU the bias is added while a part of the product is in the cache, and the product is not
/// copied afterwards; on other backends it is Burn's.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[d_input, d_output]`
    pub weight: Param<Tensor<2>>,
    /// `[d_output]`
    pub bias: Option<Param<Tensor<1>>>,
}

impl LinearConfig {
    /// The module.
    pub fn init(&self, device: &Device) -> Linear {
        let (input, output) = (Some(self.d_input), Some(self.d_output));
        let initializer = &self.initializer;
        Linear {
            weight: initializer.init_with([self.d_input, self.d_output], input, output, device),
            bias: self
                .bias
                .then(|| initializer.init_with([self.d_output], input, output, device)),
        }
    }
}

impl Linear {
    /// Multiplies the last axis with the weight, and adds the bias.
    ///
    /// # Shapes
    ///
    /// Input: `[..., d_input]`; output: `[..., d_output]`
    ///
    /// # Panics
    ///
    /// If the last axis of `input` is not `d_input`.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let bias = self.bias.as_ref().map(Param::val);
        linear(input, self.weight.val(), bias)
    }
}

/// `input weight + bias`, for a weight that belongs to something else than a [`Linear`]. A transposed
/// one is read where it is.
///
/// # Shapes
///
/// Input: `[..., d_input]`; weight: `[d_input, d_output]`; bias: `[d_output]`; output:
/// `[..., d_output]`
///
/// # Panics
///
/// If the last axis of `input` is not `d_input`, or the bias is not `d_output` wide.
pub fn linear<const D: usize>(
    input: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    let (width, [d_input, d_output]) = (input.dims()[D - 1], weight.dims());
    assert_eq!(
        width, d_input,
        "linear of {d_input} to {d_output}: the last axis is {width}"
    );
    if let Some(bias) = &bias {
        let [found] = bias.dims();
        assert_eq!(
            found, d_output,
            "linear of {d_input} to {d_output}: the bias has {found}"
        );
    }
    ops::linear(input, weight, bias)
}
