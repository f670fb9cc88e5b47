//! Kept bytes, against the formulas of arXiv 2205.05198.

use super::tests::{SHAPES, device, gpt, layer};
use super::*;
use crate::plan::profile::SegmentProfile;

/// What a layer keeps when `recomputed` segments keep their inputs only.
fn kept(gpt: &Gpt, recomputed: &[&str]) -> u64 {
    let one = |segment: &SegmentProfile| {
        if recomputed.contains(&segment.name.as_str()) {
            segment.kept_input.0
        } else {
            segment.tape.0
        }
    };
    layer(gpt).segments.iter().map(one).sum()
}

#[test]
fn one_rank_keeps_34_and_5as_over_h_bytes_for_each_number_of_the_stream() {
    for shape in SHAPES {
        let [a, h, s, b] = shape;
        let published = 34 * s * b * h + 5 * a * s * s * b;
        assert_eq!(layer(&gpt(shape, 1)).tape().0, published, "{shape:?}");
    }
}

#[test]
fn tensor_parallel_ranks_keep_10_and_24_over_t_and_their_share_of_the_scores() {
    for (shape, t) in SHAPES.iter().flat_map(|shape| [(shape, 1), (shape, 2)]) {
        let [a, h, s, b] = *shape;
        let published = 10 * s * b * h + (24 * s * b * h + 5 * a * s * s * b) / t;
        assert_eq!(layer(&gpt(*shape, t)).tape().0, published, "{shape:?}");
    }
    let [a, h, s, b] = SHAPES[4];
    let published = 10 * s * b * h + (24 * s * b * h + 5 * a * s * s * b) / 16;
    assert_eq!(layer(&gpt(SHAPES[4], 16)).tape().0, published);
}

#[test]
fn sequence_parallel_ranks_keep_their_share_of_everything() {
    for (shape, t) in SHAPES.iter().flat_map(|shape| [(shape, 1), (shape, 2)]) {
        let [a, h, s, b] = *shape;
        let mut gpt = gpt(*shape, t);
        gpt.sequence_parallel = true;
        let published = (34 * s * b * h + 5 * a * s * s * b) / t;
        assert_eq!(layer(&gpt).tape().0, published, "{shape:?}");
    }
}

#[test]
fn recomputing_core_attention_drops_exactly_the_scores() {
    for shape in SHAPES {
        let [_, h, s, b] = shape;
        for (t, sequence_parallel, published) in [
            (1, false, 34 * s * b * h),
            (2, false, 10 * s * b * h + 24 * s * b * h / 2),
            (2, true, 34 * s * b * h / 2),
        ] {
            let mut gpt = gpt(shape, t);
            gpt.sequence_parallel = sequence_parallel;
            assert_eq!(kept(&gpt, &["attention"]), published, "{shape:?} {t}");
        }
    }
}

#[test]
fn a_whole_layer_can_be_recomputed_from_two_bytes_for_each_number_of_the_stream() {
    for shape in SHAPES {
        let [_, h, s, b] = shape;
        let layer = layer(&gpt(shape, 2));
        assert_eq!(layer.segments[0].kept_input.0, 2 * s * b * h);
        assert_eq!(layer.segments[4].boundary.0, 2 * s * b * h);
    }
}

#[test]
fn a_dropout_that_regenerates_its_masks_keeps_a_byte_less_for_each_element() {
    for shape in SHAPES {
        let [a, h, s, b] = shape;
        let mut gpt = gpt(shape, 1);
        gpt.stored_masks = false;
        let without = 32 * s * b * h + 4 * a * s * s * b;
        assert_eq!(layer(&gpt).tape().0, without, "{shape:?}");
    }
}

#[test]
fn flash_attention_keeps_one_word_a_row_instead_of_the_scores() {
    for shape in SHAPES {
        let [a, h, s, b] = shape;
        let mut gpt = gpt(shape, 2);
        gpt.attention = Attention::Flash;
        let expected = 10 * s * b * h + 24 * s * b * h / 2 + 4 * a * s * b / 2;
        assert_eq!(layer(&gpt).tape().0, expected, "{shape:?}");
    }
}

#[test]
fn single_precision_doubles_all_but_the_masks() {
    for shape in SHAPES {
        let [a, h, s, b] = shape;
        let mut gpt = gpt(shape, 1);
        gpt.precision = Precision::F32;
        let masks = 2 * s * b * h + a * s * s * b;
        let halves = 34 * s * b * h + 5 * a * s * s * b;
        assert_eq!(layer(&gpt).tape().0, 2 * halves - masks, "{shape:?}");
    }
}

#[test]
fn head_and_loss_keep_4_times_1_and_v_over_h() {
    // arXiv 2205.05198, section 4.3, where everything is shared by the ranks; the embedding keeps
    // its mask, and the numbers of its tokens besides.
    for shape in SHAPES {
        let [_, h, s, b] = shape;
        let mut gpt = gpt(shape, 2);
        gpt.sequence_parallel = true;
        let v = gpt.size.vocabulary;
        let profile = gpt.profile(&device()).unwrap();
        assert_eq!(profile.head[0].tape.0, 4 * s * b * (h + v) / 2);
        assert_eq!(profile.embedding[0].tape.0, s * b * h / 2 + 4 * s * b);
    }
}
