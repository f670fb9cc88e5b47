//! GELU in one pass each way.

use burn::module::Module;
use burn::prelude::*;
use lynx_kernels::gelu::Form;

use crate::runtime::ops;

/// The Gaussian error linear unit, and the bias before it if there is one.
///
/// The same function as Burn's module, to rounding. Backward keeps the input and computes the
/// derivative in the pass that applies it.
#[derive(Module, Debug, Default)]
pub struct Gelu {
    /// Whether it is the approximation with a hyperbolic tangent, as in GPT-2.
    pub approximate: bool,
}

impl Gelu {
    /// The exact function.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The approximation.
    #[must_use]
    pub fn new_approximate() -> Self {
        Self { approximate: true }
    }

    /// Applies it to every element.
    ///
    /// # Shapes
    ///
    /// Input and output: `[..., any]`
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        ops::bias_gelu(input, None, self.form())
    }

    /// Applies it to `input + bias`, in the same pass.
    ///
    /// # Shapes
    ///
    /// Input and output: `[..., width]`; bias: `[width]`
    ///
    /// # Panics
    ///
    /// If the bias is not as wide as the last axis.
    pub fn forward_biased<const D: usize>(&self, input: Tensor<D>, bias: Tensor<1>) -> Tensor<D> {
        let (width, [found]) = (input.dims()[D - 1], bias.dims());
        assert_eq!(
            width, found,
            "GELU of a last axis of {width}: the bias has {found}"
        );
        ops::bias_gelu(input, Some(bias), self.form())
    }

    fn form(&self) -> Form {
        match self.approximate {
            true => Form::Tanh,
            false => Form::Erf,
        }
    }
}
