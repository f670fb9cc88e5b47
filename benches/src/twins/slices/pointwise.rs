//! GELU, and dropout with a residual: both as they stand between products that added their bias.

use lynx_burn::kernels::gelu::Form;
use lynx_burn::kernels::random::DropoutMask;
use lynx_burn::kernels::{Cost, dropout_add, gelu};

use super::{Pass, Twin, mask};
use crate::twins::{ROWS, WIDTH, values};

/// GELU between the two products of an MLP.
pub struct Gelu {
    shape: gelu::Gelu,
    x: Vec<f32>,
    y: Vec<f32>,
    dy: Vec<f32>,
    dx: Vec<f32>,
}

impl Gelu {
    /// Of that form.
    #[must_use]
    pub fn new(form: Form) -> Self {
        let shape = gelu::Gelu::new(form, ROWS, 4 * WIDTH).expect("valid");
        Self {
            shape,
            x: values(shape.elements()),
            y: vec![0.0; shape.elements()],
            dy: values(shape.elements()),
            dx: vec![0.0; shape.elements()],
        }
    }
}

impl Twin for Gelu {
    fn run(&mut self, pass: Pass) {
        let (shape, x) = (self.shape, &self.x);
        match pass {
            Pass::Forward | Pass::Recompute => gelu::forward(shape, x, None, &mut self.y),
            Pass::Backward => gelu::backward(shape, x, None, &self.dy, &mut self.dx, None),
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

/// Dropout and a residual.
pub struct DropoutAdd {
    shape: dropout_add::DropoutAdd,
    mask: DropoutMask,
    x: Vec<f32>,
    residual: Vec<f32>,
    y: Vec<f32>,
    dy: Vec<f32>,
    dx: Vec<f32>,
}

impl Default for DropoutAdd {
    fn default() -> Self {
        let shape = dropout_add::DropoutAdd::new(ROWS, WIDTH).expect("valid");
        Self {
            shape,
            mask: mask(),
            x: values(shape.elements()),
            residual: values(shape.elements()),
            y: vec![0.0; shape.elements()],
            dy: values(shape.elements()),
            dx: vec![0.0; shape.elements()],
        }
    }
}

impl Twin for DropoutAdd {
    fn run(&mut self, pass: Pass) {
        let (shape, mask) = (self.shape, self.mask);
        match pass {
            Pass::Forward | Pass::Recompute => {
                let residual = Some(&self.residual[..]);
                dropout_add::forward(shape, &self.x, None, residual, mask, &mut self.y)
            }
            Pass::Backward => dropout_add::backward(shape, &self.dy, mask, &mut self.dx, None),
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
