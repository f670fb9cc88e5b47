//! Cross-entropy.

use lynx_burn::kernels::{Cost, cross_entropy};

use super::{Pass, Twin};
use crate::twins::{CLASSES, ROWS, values};

/// The mean cross-entropy of a batch.
pub struct CrossEntropy {
    shape: cross_entropy::CrossEntropy,
    logits: Vec<f32>,
    targets: Vec<i64>,
    losses: Vec<f32>,
    lse: Vec<f32>,
    dlogits: Vec<f32>,
}

impl Default for CrossEntropy {
    fn default() -> Self {
        let shape = cross_entropy::CrossEntropy::new(ROWS, CLASSES).expect("valid");
        let mut twin = Self {
            shape,
            logits: values(shape.elements()),
            targets: (0..ROWS as i64).map(|i| i * 31 % CLASSES as i64).collect(),
            losses: vec![0.0; ROWS],
            lse: vec![0.0; ROWS],
            dlogits: vec![0.0; shape.elements()],
        };
        twin.run(Pass::Forward);
        twin
    }
}

impl Twin for CrossEntropy {
    fn run(&mut self, pass: Pass) {
        let (shape, logits, targets) = (self.shape, &self.logits, &self.targets);
        let lse = &mut self.lse;
        match pass {
            Pass::Forward | Pass::Recompute => {
                cross_entropy::forward(shape, logits, targets, &mut self.losses, lse).map(|_| ())
            }
            Pass::Backward => {
                cross_entropy::backward(shape, logits, targets, lse, 1.0, &mut self.dlogits)
            }
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
        &mut self.losses
    }
}
