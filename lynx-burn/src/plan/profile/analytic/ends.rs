//! What comes before the first layer and after the last.
//!
//! Activations follow arXiv 2205.05198, section 4.3: the embedding keeps the mask of its dropout,
//! the head the last norm's input and output (2 `s b h` bytes each in 16 bits, outside the
//! products) and the logits in `f32` (`4 s b v / t` bytes). The vocabulary is split among the
//! ranks; where they do not divide it, it is padded.

use super::layer::{linear, norm_backward, sizes};
use super::work::Work;
use super::{Gpt, bytes};
use crate::plan::cluster::Device;
use crate::plan::profile::{SegmentProfile, WeightBytes};

/// Bytes of a token's number, and of a logit.
const WORD: u128 = 4;

/// Looks up tokens and positions and drops some of it.
pub(super) fn embedding(gpt: &Gpt, device: &Device) -> SegmentProfile {
    let (e, mask, outside) = (gpt.element(), gpt.mask(), gpt.outside());
    let (h, _) = sizes(gpt);
    let positions = if gpt.size.learned_positions {
        u128::from(gpt.sequence)
    } else {
        0
    };
    // Backward reads the gradient and reads and writes the rows' gradients.
    let work = Work::new(gpt.precision)
        .looks_up(2 * e * gpt.stream(), 3 * e * gpt.stream())
        .looks_up((2 * e + mask) * outside, (2 * e + mask) * outside);
    SegmentProfile {
        tape: bytes(WORD * gpt.tokens() + mask * outside),
        kept_input: bytes(WORD * gpt.tokens()),
        boundary: bytes(e * outside),
        workspace: bytes(e * gpt.stream()),
        after_forward: gpt.collectives(),
        weights: gpt.weights((vocabulary(gpt) + positions) * h),
        ..work.timed("embed", device)
    }
}

/// The last norm, the logits and the loss.
pub(super) fn head(gpt: &Gpt, device: &Device) -> SegmentProfile {
    let (e, outside) = (gpt.element(), gpt.outside());
    let (h, _) = sizes(gpt);
    let logits = WORD * gpt.tokens() * vocabulary(gpt);
    // The loss reads the logits for their maximum and their sum and writes probabilities; its
    // backward turns those into gradients.
    let work = Work::new(gpt.precision)
        .moves(2 * e * outside, norm_backward(gpt))
        .with_weight(linear(gpt, h, vocabulary(gpt)))
        .moves(3 * logits, 2 * logits);
    SegmentProfile {
        tape: bytes(2 * e * outside + logits),
        kept_input: bytes(e * outside),
        // The loss.
        boundary: bytes(WORD),
        workspace: bytes(logits + e * outside),
        after_backward: gpt.collectives(),
        weights: gpt.weights(2 * h + vocabulary(gpt) * h),
        ..work.timed("head", device)
    }
}

/// What the two have in common.
pub(super) fn tied(gpt: &Gpt) -> WeightBytes {
    if gpt.size.tied {
        gpt.weights(vocabulary(gpt) * u128::from(gpt.size.hidden))
    } else {
        WeightBytes::default()
    }
}

/// The rows of one rank.
fn vocabulary(gpt: &Gpt) -> u128 {
    gpt.size.vocabulary.div_ceil(gpt.tensor_parallel).into()
}
