//! Kernels by themselves: slices in, slices out, no tensors and no autodiff.

mod attention;
mod layer_norm;
mod linear;
mod loss;
mod pointwise;

pub use attention::Attention;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use loss::CrossEntropy;
use lynx_burn::kernels::Cost;
use lynx_burn::kernels::random::{DropoutMask, KeepProbability, StreamKey};
pub use pointwise::{DropoutAdd, Gelu};

use super::DROP;

/// One of the passes of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// From the input.
    Forward,
    /// From the input and what forward kept.
    Recompute,
    /// From the gradient of the output.
    Backward,
}

/// A kernel's CPU twin with its buffers, which all passes share and write again each time.
pub trait Twin {
    /// Runs a pass; recompute and backward from what the last forward kept. Where recompute is forward
    /// once more, that.
    fn run(&mut self, pass: Pass);

    /// What a pass has to do at least.
    fn cost(&self, pass: Pass) -> Cost;

    /// What forward and recompute write.
    fn output(&mut self) -> &mut [f32];
}

/// The mask of some place in some run.
fn mask() -> DropoutMask {
    let key = StreamKey {
        seed: 1,
        step: 2,
        micro_batch: 0,
        segment: 0,
        site: 0,
    };
    DropoutMask::new(key, KeepProbability::from_drop(DROP).expect("valid"))
}
