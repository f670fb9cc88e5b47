//! What tests of overlap start from: chains, partitions, and chance that comes out the same.

use burn::prelude::*;
use lynx_burn::plan::layout::ChainLayout;
use lynx_burn::plan::partition::Partition;
use lynx_burn::{Chain, MicroBatch};

use crate::chains::{Net, NetSpec, Step};

fn device() -> Device {
    Device::flex().autodiff()
}

/// Four layers of two segments, with every kind of use of a tensor.
pub fn mixed() -> NetSpec {
    use Step::{Close, Dense, Drop, Gate, Norm, Open};
    let mut spec = NetSpec::new([Dense, Open, Norm, Drop, Gate, Dense, Close, Dense]);
    spec.per_layer = 2;
    spec
}

/// Four layers of two segments, wide enough for tensors to be seen by the ledger and for recompute
/// to take time.
pub fn wide() -> NetSpec {
    let mut spec = NetSpec::new([Step::Dense, Step::Norm].repeat(4));
    spec.per_layer = 2;
    spec.width = 64;
    spec
}

/// Micro-batches of so many samples each.
pub fn batches(spec: &NetSpec, sizes: &[usize]) -> Vec<MicroBatch<Net>> {
    sizes.iter().map(|&n| spec.batch(n, &device())).collect()
}

/// The chain cut into stages of as many layers each.
///
/// # Panics
///
/// If there are more stages than layers.
pub fn even(spec: &NetSpec, stages: usize) -> Partition {
    let layout = ChainLayout::new(spec.init(&device()).segments()).expect("a chain");
    Partition::even(&layout, stages).expect("as many layers as stages")
}

/// One list per stage, filled by `make`.
pub fn per_segment<T>(partition: &Partition, mut make: impl FnMut() -> T) -> Vec<Vec<T>> {
    partition
        .ranges()
        .map(|range| range.map(|_| make()).collect())
        .collect()
}

/// Numbers that come out the same in every run.
pub struct Dice(pub u64);

impl Dice {
    /// One of `0..sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}
