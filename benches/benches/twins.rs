//! Each pass of each CPU twin by itself, to look at while a kernel is changed: `cargo bench -p
//! lynx-benches --bench twins -- layer_norm`.
//!
//! `slices` is the twin alone, `ours` the operation that wraps it for Burn, `burns` the same function of
//! Burn's operations. Throughput is what the kernel has to do at least, for all three: bytes that it
//! reads and writes, and, as items, operations. Allocations are those of the calling thread: buffers
//! of tensors, but not what rayon's threads work in.
//!
//! Nothing is compared here, and variants do not take turns: one runs after the other, and a machine
//! that changes speed in between changes their ratio. The ratios in `results` come from the benchmark
//! `kernels`.
//!
//! Forward of `ours` and `burns` is tracked by autodiff, as in training. Their backward contains the
//! product with a constant that brings a gradient in, and a sum. The dropout of `burns` is Burn's own,
//! which draws its mask each time, but for attention's, whose mask was made before.

use std::fmt;
use std::time::Duration;

use burn::tensor::Tensor;
use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher, Divan};
use lynx_benches::twins::slices::{self, Pass, Twin};
use lynx_benches::twins::{self, DROP, Function, Pair, SEQ, device, normal};
use lynx_burn::kernels::gelu::Form;
use lynx_burn::kernels::linear::Stored;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    // Before the arguments, which have the last word.
    Divan::default()
        .sample_count(50)
        .max_time(Duration::from_secs(3))
        .config_with_args()
        .main();
}

/// Who computes.
#[derive(Clone, Copy)]
enum Side {
    Slices,
    Ours,
    Burns,
}

impl Side {
    const ALL: [Self; 3] = [Self::Slices, Self::Ours, Self::Burns];
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slices => "slices",
            Self::Ours => "ours",
            Self::Burns => "burns",
        })
    }
}

/// A kernel's benchmarks, with one of recompute where that is not forward once more.
macro_rules! kernel {
    ($name:ident, $twin:expr, $pair:expr $(, $recompute:ident)?) => {
        mod $name {
            use super::*;

            #[divan::bench(args = Side::ALL)]
            fn forward(bencher: Bencher<'_, '_>, side: Side) {
                time(bencher, Pass::Forward, side, $twin, || $pair);
            }

            $(#[divan::bench]
            fn $recompute(bencher: Bencher<'_, '_>) {
                time(bencher, Pass::Recompute, Side::Slices, $twin, || $pair);
            })?

            #[divan::bench(args = Side::ALL)]
            fn backward(bencher: Bencher<'_, '_>, side: Side) {
                time(bencher, Pass::Backward, side, $twin, || $pair);
            }
        }
    };
}

kernel!(
    layer_norm,
    slices::LayerNorm::default(),
    twins::layer_norm(),
    recompute
);
kernel!(
    gelu_tanh,
    slices::Gelu::new(Form::Tanh),
    twins::gelu(Form::Tanh)
);
kernel!(
    gelu_erf,
    slices::Gelu::new(Form::Erf),
    twins::gelu(Form::Erf)
);
kernel!(
    dropout_add,
    slices::DropoutAdd::default(),
    twins::dropout_add_drawn()
);
kernel!(
    attention,
    slices::Attention::new(false),
    twins::attention(SEQ, 0.0),
    recompute
);
kernel!(
    attention_dropout,
    slices::Attention::new(true),
    twins::attention(SEQ, DROP),
    recompute
);
kernel!(
    cross_entropy,
    slices::CrossEntropy::default(),
    twins::cross_entropy()
);
kernel!(
    linear_256_1024,
    slices::Linear::new(256, 1024),
    twins::product(256, 1024, Stored::ByInput)
);
kernel!(
    linear_1024_256,
    slices::Linear::new(1024, 256),
    twins::product(1024, 256, Stored::ByInput)
);

fn time(
    bencher: Bencher<'_, '_>,
    pass: Pass,
    side: Side,
    mut twin: impl Twin,
    pair: impl FnOnce() -> Pair,
) {
    let cost = twin.cost(pass);
    let bencher = bencher
        .counter(BytesCount::new(cost.bytes()))
        .counter(ItemsCount::new(cost.flops));
    match side {
        Side::Slices => bencher.bench_local(|| twin.run(pass)),
        Side::Ours => {
            let pair = pair();
            tracked(bencher, pass, pair.shape, &pair.ours);
        }
        Side::Burns => {
            let pair = pair();
            tracked(bencher, pass, pair.shape, &pair.burns);
        }
    }
}

fn tracked(bencher: Bencher<'_, '_>, pass: Pass, shape: [usize; 3], function: &Function) {
    let input = normal(shape);
    let run = || function(input.clone().detach().require_grad());
    if pass == Pass::Forward {
        bencher.bench_local(|| Tracked(Some(run())));
    } else {
        let factor = normal(run().dims());
        bencher
            .with_inputs(|| (run() * factor.clone()).sum())
            .bench_local_values(|end| end.backward());
    }
}

/// An output whose tape ends when it is dropped, outside the time that is measured. Autodiff would
/// keep it until the next backward, and there is none.
struct Tracked(Option<Tensor<3>>);

impl Drop for Tracked {
    fn drop(&mut self) {
        drop(self.0.take());
        let _ = Tensor::<1>::ones([1], &device()).require_grad().backward();
    }
}
