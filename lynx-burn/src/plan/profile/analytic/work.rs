//! Kernels, and what they take on a device.

use crate::plan::cluster::{Device, Precision};
use crate::plan::profile::SegmentProfile;
use crate::units::Nanos;

/// One pass over the device: arithmetic and memory traffic at the same time.
#[derive(Clone, Copy)]
struct Kernel {
    flops: f64,
    bytes: f64,
}

/// The kernels of a segment.
pub(super) struct Work {
    precision: Precision,
    forward: Vec<Kernel>,
    /// Part of the forward, but behind the segment's collective: recomputation leaves it out.
    behind: Vec<Kernel>,
    backward_input: Vec<Kernel>,
    backward_weight: Vec<Kernel>,
}

impl Kernel {
    fn new(flops: f64, bytes: u128) -> Self {
        let bytes = bytes as f64;
        Self { flops, bytes }
    }
}

/// So many products of an `m x k` by a `k x n` matrix.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub(super) count: u128,
    pub(super) m: u128,
    pub(super) k: u128,
    pub(super) n: u128,
}

impl Product {
    /// `2 m n k` operations; every matrix is read or written once.
    fn kernel(&self, precision: Precision) -> Kernel {
        let [count, m, k, n] = [self.count, self.m, self.k, self.n].map(|x| x as f64);
        Kernel {
            flops: 2.0 * count * m * n * k,
            bytes: precision.bytes() as f64 * count * (m * k + k * n + m * n),
        }
    }
}

impl Work {
    pub(super) fn new(precision: Precision) -> Self {
        Self {
            precision,
            forward: Vec::new(),
            behind: Vec::new(),
            backward_input: Vec::new(),
            backward_weight: Vec::new(),
        }
    }

    /// A product with a weight: its gradient is one product, the input's another. The three have
    /// the same sizes in another order.
    pub(super) fn with_weight(mut self, product: Product) -> Self {
        let kernel = product.kernel(self.precision);
        self.forward.push(kernel);
        self.backward_input.push(kernel);
        self.backward_weight.push(kernel);
        self
    }

    /// A product of two activations: both gradients are of inputs.
    pub(super) fn between_inputs(mut self, product: Product) -> Self {
        let kernel = product.kernel(self.precision);
        self.forward.push(kernel);
        self.backward_input.extend([kernel; 2]);
        self
    }

    /// A kernel with operations of its own: operations and bytes of forward and backward.
    pub(super) fn fused(mut self, forward: (f64, u128), backward: (f64, u128)) -> Self {
        self.forward.push(Kernel::new(forward.0, forward.1));
        self.backward_input
            .push(Kernel::new(backward.0, backward.1));
        self
    }

    /// Element-wise work: the bytes that forward and backward move.
    pub(super) fn moves(self, forward: u128, backward: u128) -> Self {
        self.fused((0.0, forward), (0.0, backward))
    }

    /// Element-wise work behind the segment's collective.
    pub(super) fn moves_behind(mut self, forward: u128, backward: u128) -> Self {
        self.behind.push(Kernel::new(0.0, forward));
        self.backward_input.push(Kernel::new(0.0, backward));
        self
    }

    /// Element-wise work whose backward concerns weights only.
    pub(super) fn looks_up(mut self, forward: u128, backward: u128) -> Self {
        self.forward.push(Kernel::new(0.0, forward));
        self.backward_weight.push(Kernel::new(0.0, backward));
        self
    }

    /// A segment with these times and nothing else.
    pub(super) fn timed(self, name: &str, device: &Device) -> SegmentProfile {
        let time = |kernels: &[Kernel]| -> Nanos {
            let one = |k: &Kernel| device.kernel_time(k.flops, k.bytes, self.precision);
            kernels.iter().map(one).sum()
        };
        let recompute = time(&self.forward);
        SegmentProfile {
            name: name.to_owned(),
            forward: recompute.saturating_add(time(&self.behind)),
            backward_input: time(&self.backward_input),
            backward_weight: Some(time(&self.backward_weight)),
            recompute,
            ..SegmentProfile::default()
        }
    }
}
