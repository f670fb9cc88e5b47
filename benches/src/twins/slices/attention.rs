//! Attention.

use lynx_burn::kernels::random::DropoutMask;
use lynx_burn::kernels::{Cost, attention};

use super::{Pass, Twin, mask};
use crate::twins::{BATCH, HEADS, SEQ, WIDTH, values};

/// Causal attention of all heads.
pub struct Attention {
    shape: attention::Attention,
    mask: Option<DropoutMask>,
    qkv: Vec<f32>,
    out: Vec<f32>,
    lse: Vec<f32>,
    dout: Vec<f32>,
    dqkv: Vec<f32>,
}

impl Attention {
    /// With weights dropped or not.
    #[must_use]
    pub fn new(drops: bool) -> Self {
        let shape = attention::Attention::new(BATCH, SEQ, HEADS, WIDTH / HEADS).expect("valid");
        let mut twin = Self {
            shape,
            mask: drops.then(mask),
            qkv: values(3 * shape.elements()),
            out: vec![0.0; shape.elements()],
            lse: vec![0.0; shape.queries()],
            dout: values(shape.elements()),
            dqkv: vec![0.0; 3 * shape.elements()],
        };
        twin.run(Pass::Forward);
        twin
    }
}

impl Twin for Attention {
    fn run(&mut self, pass: Pass) {
        let (shape, qkv, mask) = (self.shape, &self.qkv, self.mask);
        let (out, lse) = (&mut self.out, &mut self.lse);
        match pass {
            Pass::Forward => attention::forward(shape, qkv, mask, out, lse),
            Pass::Recompute => attention::recompute(shape, qkv, mask, lse, out),
            Pass::Backward => {
                attention::backward(shape, qkv, mask, out, lse, &self.dout, &mut self.dqkv)
            }
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
        &mut self.out
    }
}
