//! The five segments of a layer.
//!
//! Sizes are in numbers of `e` bytes unless said otherwise. *Outside* is what a rank holds of
//! `s b h` between the products: all of it or, with sequence parallelism, `1/t`. *Inside* is
//! `s b h / t`. What is on whose tape:
//!
//! | segment | tape | in 16 bits |
//! |---|---|---|
//! | qkv | norm's input and output, outside | 4 |
//! | attention | q, k and v, inside; softmax, its mask (1 byte) and its dropout, `a s s b / t` | 6/t + 5as/ht |
//! | projection | its input, inside | 2/t |
//! | mlp-in | dropout's mask (1 byte), norm's input and output, outside | 5 |
//! | mlp-out | GELU's input and output, 4 inside each; dropout's mask (1 byte), outside | 16/t + 1 |
//!
//! The last column is in units of `s b h`, without sequence parallelism. The sum is the published
//! `10 + 24/t + 5as/(ht)` of arXiv 2205.05198, section 4.2, which for one rank is `34 + 5as/h`; with
//! sequence parallelism all of it is divided by `t`. Recomputing `attention` keeps
//! its q, k and v and leaves 34: "selective" there (section 5). Recomputing the whole layer keeps
//! the first segment's input, 2.
//!
//! With FlashAttention the scores' share `5as/h` is gone; instead a rank keeps `4 a s b / t` bytes
//! for the logarithms of their sums. Without stored masks the two dropouts take 2 less, and that of
//! the scores `as/h`.

use super::{Attention, Gpt, bytes};
use crate::plan::cluster::Device;
use crate::plan::profile::SegmentProfile;
use crate::plan::profile::analytic::work::{Product, Work};

/// The names of a layer's segments, in order.
pub const SEGMENTS: [&str; 5] = ["qkv", "attention", "projection", "mlp-in", "mlp-out"];

/// A layer of this model.
pub(super) fn segments(gpt: &Gpt, device: &Device) -> Vec<SegmentProfile> {
    let [first, second, third, fourth, fifth] = SEGMENTS;
    vec![
        qkv(gpt, device, first),
        attention(gpt, device, second),
        projection(gpt, device, third),
        mlp_in(gpt, device, fourth),
        mlp_out(gpt, device, fifth),
    ]
}

/// The product of all tokens with one rank's share of a `k x n` weight.
pub(super) fn linear(gpt: &Gpt, k: u128, n: u128) -> Product {
    Product {
        count: 1,
        m: gpt.tokens(),
        k,
        n,
    }
}

fn qkv(gpt: &Gpt, device: &Device, name: &str) -> SegmentProfile {
    let (e, outside, inside) = (gpt.element(), gpt.outside(), gpt.inside());
    let (h, t) = sizes(gpt);
    let work = Work::new(gpt.precision)
        .moves(2 * e * outside, norm_backward(gpt))
        .with_weight(linear(gpt, h, 3 * h / t));
    SegmentProfile {
        tape: bytes(2 * e * outside),
        kept_input: bytes(e * outside),
        boundary: bytes(e * (3 * inside + outside)),
        workspace: bytes(e * (3 * inside + outside)),
        after_backward: gpt.collectives(),
        weights: gpt.weights(2 * h + 3 * (h + 1) * h / t),
        ..work.timed(name, device)
    }
}

fn attention(gpt: &Gpt, device: &Device, name: &str) -> SegmentProfile {
    let (e, mask, inside, scores) = (gpt.element(), gpt.mask(), gpt.inside(), gpt.scores());
    let work = Work::new(gpt.precision);
    let (work, tape, workspace) = match gpt.attention {
        Attention::Stored => {
            let work = work
                .between_inputs(head_product(gpt, true))
                // Scale, causal mask and softmax in one kernel.
                .moves(2 * e * scores, 3 * e * scores)
                .moves((2 * e + mask) * scores, (2 * e + mask) * scores)
                .between_inputs(head_product(gpt, false));
            let tape = 3 * e * inside + (2 * e + mask) * scores;
            (work, tape, 2 * e * scores)
        }
        Attention::Flash => {
            // Two products, of which a causal mask leaves half; the backward is 2.5 times as
            // much, because it makes the scores again (benchmarks of FlashAttention-2).
            let flops = 4.0 * scores as f64 * head_width(gpt) as f64 / 2.0;
            let work = work.fused((flops, 4 * e * inside), (2.5 * flops, 8 * e * inside));
            let tape = 3 * e * inside + 4 * gpt.rows();
            (work, tape, 3 * e * inside)
        }
    };
    SegmentProfile {
        tape: bytes(tape),
        kept_input: bytes(3 * e * inside),
        boundary: bytes(e * (inside + gpt.outside())),
        workspace: bytes(workspace + e * inside),
        ..work.timed(name, device)
    }
}

fn projection(gpt: &Gpt, device: &Device, name: &str) -> SegmentProfile {
    let (e, outside, inside) = (gpt.element(), gpt.outside(), gpt.inside());
    let (h, t) = sizes(gpt);
    let work = Work::new(gpt.precision).with_weight(linear(gpt, h / t, h));
    SegmentProfile {
        tape: bytes(e * inside),
        kept_input: bytes(e * inside),
        boundary: bytes(2 * e * outside),
        workspace: bytes(e * (inside + gpt.stream())),
        after_forward: gpt.collectives(),
        weights: gpt.weights(h * h / t + h),
        ..work.timed(name, device)
    }
}

fn mlp_in(gpt: &Gpt, device: &Device, name: &str) -> SegmentProfile {
    let (e, mask, outside, inside) = (gpt.element(), gpt.mask(), gpt.outside(), gpt.inside());
    let (h, t) = sizes(gpt);
    let work = Work::new(gpt.precision)
        .moves(join_forward(gpt), join_backward(gpt))
        .moves(2 * e * outside, norm_backward(gpt))
        .with_weight(linear(gpt, h, 4 * h / t));
    SegmentProfile {
        tape: bytes((2 * e + mask) * outside),
        // The branch; the residual it is added to is `qkv`'s input.
        kept_input: bytes(e * outside),
        boundary: bytes(e * (4 * inside + outside)),
        workspace: bytes(e * (4 * inside + outside)),
        after_backward: gpt.collectives(),
        weights: gpt.weights(2 * h + 4 * (h + 1) * h / t),
        ..work.timed(name, device)
    }
}

fn mlp_out(gpt: &Gpt, device: &Device, name: &str) -> SegmentProfile {
    let (e, mask, outside, inside) = (gpt.element(), gpt.mask(), gpt.outside(), gpt.inside());
    let (h, t) = sizes(gpt);
    let work = Work::new(gpt.precision)
        .moves(8 * e * inside, 12 * e * inside)
        .with_weight(linear(gpt, 4 * h / t, h))
        .moves_behind(join_forward(gpt), join_backward(gpt));
    SegmentProfile {
        tape: bytes(8 * e * inside + mask * outside),
        kept_input: bytes(4 * e * inside),
        boundary: bytes(e * outside),
        workspace: bytes(e * (8 * inside + gpt.stream())),
        after_forward: gpt.collectives(),
        weights: gpt.weights(4 * h * h / t + h),
        ..work.timed(name, device)
    }
}

/// Width and ranks.
pub(super) fn sizes(gpt: &Gpt) -> (u128, u128) {
    (gpt.size.hidden.into(), gpt.tensor_parallel.into())
}

/// Reading the gradient, the input and the gradient that goes past the norm, writing their sum.
pub(super) fn norm_backward(gpt: &Gpt) -> u128 {
    4 * gpt.element() * gpt.outside()
}

/// Dropout and residual sum: two inputs, one output, a mask.
fn join_forward(gpt: &Gpt) -> u128 {
    (3 * gpt.element() + gpt.mask()) * gpt.outside()
}

/// The gradient of dropout's input from that of its output.
fn join_backward(gpt: &Gpt) -> u128 {
    (2 * gpt.element() + gpt.mask()) * gpt.outside()
}

fn head_width(gpt: &Gpt) -> u128 {
    u128::from(gpt.size.hidden / gpt.size.heads)
}

/// Queries with keys, or scores with values.
fn head_product(gpt: &Gpt, queries: bool) -> Product {
    let (s, width) = (u128::from(gpt.sequence), head_width(gpt));
    let (k, n) = if queries { (width, s) } else { (s, width) };
    Product {
        count: u128::from(gpt.size.heads / gpt.tensor_parallel) * u128::from(gpt.micro_batch),
        m: s,
        k,
        n,
    }
}
