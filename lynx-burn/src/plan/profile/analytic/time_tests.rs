//! Times, against counts of operations and bytes made in other ways.

use super::*;
use crate::plan::cluster::{Cluster, Efficiency, Tflops};
use crate::units::Nanos;

/// A device that computes 10^12 operations a second, whatever their size, and moves data at once.
fn computer() -> Device {
    Device {
        name: "computer".to_owned(),
        memory: Bytes(1 << 40),
        tflops: Tflops {
            bf16: 1.0,
            f16: 1.0,
            f32: 1.0,
        },
        efficiency: Efficiency {
            best: 1.0,
            half_gflop: 0.0,
        },
        memory_gb_s: 1e9,
        memory_efficiency: 1.0,
    }
}

/// A device that computes at once and moves 10^9 bytes a second.
fn mover() -> Device {
    Device {
        tflops: Tflops {
            bf16: 1e9,
            f16: 1e9,
            f32: 1e9,
        },
        memory_gb_s: 1.0,
        ..computer()
    }
}

fn close(time: Nanos, expected: f64) {
    let relative = time.seconds() / expected - 1.0;
    assert!(relative.abs() < 1e-4, "{time} is not {expected} s");
}

#[test]
fn a_step_with_full_recompute_is_the_published_number_of_operations() {
    for name in GptSize::NAMES {
        let mut gpt = Gpt::new(name.parse().unwrap());
        gpt.micro_batch = 2;
        let profile = gpt.profile(&computer()).unwrap();
        let layers: Nanos = profile
            .layer_kinds()
            .map(|kind| {
                let again: Nanos = kind.segments.iter().map(|s| s.recompute).sum();
                let once = kind.forward().saturating_add(kind.backward());
                once.saturating_add(again)
            })
            .sum();
        let head = &profile.head[0];
        let step = layers
            .saturating_add(head.forward)
            .saturating_add(head.backward());
        // arXiv 2104.04473, section 5.1: 96 B s l h^2 (1 + s / 6h + V / 16lh).
        let [b, s, l, h, v] = [
            2,
            gpt.sequence,
            gpt.size.layers,
            gpt.size.hidden,
            gpt.size.vocabulary,
        ]
        .map(|figure| figure as f64);
        let published = 96.0 * b * s * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
        close(step, published / 1e12);
    }
}

#[test]
fn ranks_share_the_operations_evenly() {
    let mut gpt = Gpt::new("7b".parse().unwrap());
    let whole = gpt.profile(&computer()).unwrap();
    gpt.tensor_parallel = 4;
    let share = gpt.profile(&computer()).unwrap();
    let pairs = whole.segments().zip(share.segments());
    for (whole, share) in pairs.filter(|(segment, _)| segment.name != "embed") {
        close(share.forward, whole.forward.seconds() / 4.0);
        close(share.backward(), whole.backward().seconds() / 4.0);
    }
}

#[test]
fn products_with_weights_cost_the_same_three_times() {
    let gpt = Gpt::new("1.3b".parse().unwrap());
    let profile = gpt.profile(&computer()).unwrap();
    for segment in &profile.kinds[0].segments {
        let weight = segment.backward_weight.unwrap();
        if segment.name == "attention" {
            assert_eq!(weight, Nanos::ZERO, "attention has no weights");
            close(segment.backward_input, 2.0 * segment.forward.seconds());
        } else {
            close(weight, segment.forward.seconds());
            close(segment.backward_input, segment.forward.seconds());
        }
    }
}

#[test]
fn flash_attention_skips_half_the_scores_and_makes_them_again_in_backward() {
    let mut gpt = Gpt::new("1.3b".parse().unwrap());
    gpt.attention = Attention::Flash;
    let profile = gpt.profile(&computer()).unwrap();
    let attention = &profile.kinds[0].segments[1];
    // Two products of 2 s s h operations, half of each; backward has five.
    let (s, h) = (2048.0, 2048.0);
    close(attention.forward, 2.0 * s * s * h / 1e12);
    close(attention.backward(), 5.0 * s * s * h / 1e12);
}

#[test]
fn memory_traffic_is_what_goes_in_and_out_of_every_kernel() {
    let gpt = Gpt::new("1.3b".parse().unwrap());
    let profile = gpt.profile(&mover()).unwrap();
    let [qkv, attention, projection, mlp_in, mlp_out] = &profile.kinds[0].segments[..] else {
        panic!("five segments");
    };
    let (s, h, a) = (2048.0, 2048.0, 16.0);
    let (x, scores) = (s * h, a * s * s);
    // Numbers of two bytes, and bytes of masks.
    let expect = |time: Nanos, numbers: f64, masks: f64| close(time, (2.0 * numbers + masks) / 1e9);
    let norm = 2.0 * x;
    let join = 3.0 * x;
    expect(qkv.forward, norm + x + 3.0 * h * h + 3.0 * x, 0.0);
    // q k, softmax, dropout, values.
    let products = 2.0 * (2.0 * x + scores);
    expect(attention.forward, products + 4.0 * scores, scores);
    expect(projection.forward, x + h * h + x, 0.0);
    expect(mlp_in.forward, join + norm + x + 4.0 * h * h + 4.0 * x, x);
    let gelu_and_product = 8.0 * x + 4.0 * x + 4.0 * h * h + x;
    expect(mlp_out.forward, gelu_and_product + join, x);
    expect(mlp_out.recompute, gelu_and_product, 0.0);
    // Backward: the norm's two gradients in, its input in, the sum out; and so on.
    let (norm, join, wide) = (4.0 * x, 2.0 * x, 4.0 * h * h + 5.0 * x);
    expect(qkv.backward_input, norm + 3.0 * h * h + 4.0 * x, 0.0);
    let products = 4.0 * (2.0 * x + scores);
    expect(attention.backward_input, products + 5.0 * scores, scores);
    expect(projection.backward_input, 2.0 * x + h * h, 0.0);
    expect(mlp_in.backward_input, join + norm + wide, x);
    expect(mlp_out.backward_input, join + 12.0 * x + wide, x);
}

#[test]
fn a_22b_layer_on_eight_a100_takes_about_what_its_authors_measured() {
    // Table 4 of arXiv 2205.05198, quoted from memory: milliseconds of one layer with 4 samples
    // of 2048 tokens, forward and backward, without and with sequence parallelism. Our device is
    // free of launch gaps and of everything that is not in the formulas, so it is faster.
    let cluster: Cluster = "a100-80-nvlink".parse().unwrap();
    let mut gpt = Gpt::new("23b".parse().unwrap());
    gpt.micro_batch = 4;
    gpt.tensor_parallel = 8;
    for (sequence_parallel, forward, backward) in [(false, 7.7, 11.9), (true, 7.2, 11.8)] {
        gpt.sequence_parallel = sequence_parallel;
        let profile = gpt.profile(&cluster.device).unwrap();
        let layer = &profile.kinds[0];
        let waits = |pick: fn(&crate::plan::profile::SegmentProfile) -> &[Collective]| -> Nanos {
            let all = layer.segments.iter();
            all.map(|s| cluster.collectives_time(pick(s), 8)).sum()
        };
        let ours = [
            layer.forward().saturating_add(waits(|s| &s.after_forward)),
            layer
                .backward()
                .saturating_add(waits(|s| &s.after_backward)),
        ];
        for (ours, measured) in ours.into_iter().zip([forward, backward]) {
            let ratio = ours.seconds() * 1e3 / measured;
            assert!((0.8..=1.0).contains(&ratio), "{ours} for {measured} ms");
        }
    }
}
