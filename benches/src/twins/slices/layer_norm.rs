//! Layer norm.

use lynx_burn::kernels::{Cost, layer_norm};

use super::{Pass, Twin};
use crate::twins::{ROWS, WIDTH, values};

/// Layer norm of the residual stream.
pub struct LayerNorm {
    shape: layer_norm::LayerNorm,
    x: Vec<f32>,
    /// Scale and offset both.
    gamma: Vec<f32>,
    y: Vec<f32>,
    mean: Vec<f32>,
    rstd: Vec<f32>,
    dy: Vec<f32>,
    dx: Vec<f32>,
    dgamma: Vec<f32>,
    dbeta: Vec<f32>,
}

impl Default for LayerNorm {
    fn default() -> Self {
        let shape = layer_norm::LayerNorm::new(ROWS, WIDTH, 1e-5).expect("valid");
        let mut twin = Self {
            shape,
            x: values(shape.elements()),
            gamma: values(WIDTH),
            y: vec![0.0; shape.elements()],
            mean: vec![0.0; ROWS],
            rstd: vec![0.0; ROWS],
            dy: values(shape.elements()),
            dx: vec![0.0; shape.elements()],
            dgamma: vec![0.0; WIDTH],
            dbeta: vec![0.0; WIDTH],
        };
        twin.run(Pass::Forward);
        twin
    }
}

impl Twin for LayerNorm {
    fn run(&mut self, pass: Pass) {
        let (shape, x, gamma) = (self.shape, &self.x, &self.gamma);
        let (beta, mean, rstd) = (Some(&gamma[..]), &mut self.mean, &mut self.rstd);
        match pass {
            Pass::Forward => layer_norm::forward(shape, x, gamma, beta, &mut self.y, mean, rstd),
            Pass::Recompute => {
                layer_norm::recompute(shape, x, gamma, beta, mean, rstd, &mut self.y)
            }
            Pass::Backward => layer_norm::backward(
                shape,
                x,
                gamma,
                mean,
                rstd,
                &self.dy,
                &mut self.dx,
                &mut self.dgamma,
                &mut self.dbeta,
            ),
        }
        .expect("buffers of the shape");
    }

    fn cost(&self, pass: Pass) -> Cost {
        match pass {
            Pass::Forward => self.shape.forward_cost(),
            Pass::Recompute => self.shape.recompute_cost(),
            Pass::Backward => self.shape.backward_cost(),
        }
    }

    fn output(&mut self) -> &mut [f32] {
        &mut self.y
    }
}
