//! Products with a weight.

use lynx_burn::kernels::linear::Stored;
use lynx_burn::kernels::{Cost, KernelError, linear};

use super::{Pass, Twin};
use crate::twins::{ROWS, values};

/// A product of the residual stream's rows with a weight, and its bias.
pub struct Linear {
    shape: linear::Linear,
    x: Vec<f32>,
    w: Vec<f32>,
    bias: Vec<f32>,
    y: Vec<f32>,
    dy: Vec<f32>,
    dx: Vec<f32>,
    dw: Vec<f32>,
    dbias: Vec<f32>,
}

impl Linear {
    /// With a weight of `inputs` by `outputs`.
    ///
    /// # Panics
    ///
    /// If one of them is zero.
    #[must_use]
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            shape: linear::Linear::new(ROWS, inputs, outputs).expect("valid"),
            x: values(ROWS * inputs),
            w: values(inputs * outputs),
            bias: values(outputs),
            y: vec![0.0; ROWS * outputs],
            dy: values(ROWS * outputs),
            dx: vec![0.0; ROWS * inputs],
            dw: vec![0.0; inputs * outputs],
            dbias: vec![0.0; outputs],
        }
    }

    /// The three gradients.
    fn backward(&mut self) -> Result<(), KernelError> {
        let (shape, dy) = (self.shape, &self.dy);
        linear::input_gradient(shape, &self.w, Stored::ByInput, dy, &mut self.dx)?;
        linear::weight_gradient(shape, &self.x, dy, &mut self.dw)?;
        linear::bias_gradient(shape, dy, &mut self.dbias)
    }
}

impl Twin for Linear {
    fn run(&mut self, pass: Pass) {
        match pass {
            Pass::Forward | Pass::Recompute => {
                let (bias, by) = (Some(&self.bias[..]), Stored::ByInput);
                linear::forward(self.shape, &self.x, &self.w, by, bias, &mut self.y)
            }
            Pass::Backward => self.backward(),
        }
        .expect("buffers of the shape");
    }

    fn cost(&self, pass: Pass) -> Cost {
        match pass {
            Pass::Forward | Pass::Recompute => self.shape.forward_cost(),
            Pass::Backward => self.shape.backward_cost(),
        }
    }

    fn output(&mut self) -> &mut [f32] {
        &mut self.y
    }
}
