//! Attention, and the same with the whole matrix.

use burn::prelude::*;
use burn::tensor::activation::softmax;
use lynx_burn::nn::CausalSelfAttentionConfig;

use super::pairs::mask;
use super::{BATCH, HEADS, Pair, WIDTH, context};

/// Causal attention over `seq` positions, and the same as a GPT in Burn is usually written.
///
/// # Panics
///
/// If `drop` is not in `[0, 1)`.
#[must_use]
pub fn attention(seq: usize, drop: f64) -> Pair {
    let ours = CausalSelfAttentionConfig::new(HEADS).with_dropout(drop);
    let ours = ours.init().expect("valid");
    let mask = (drop > 0.0).then(|| mask([BATCH, HEADS, seq, seq], drop));
    Pair {
        name: format!("attention, dropout {drop}"),
        shape: [BATCH, seq, 3 * WIDTH],
        ours: Box::new(move |x| ours.forward(x, &context())),
        burns: Box::new(move |qkv| composed(qkv, mask.as_ref())),
        random: false,
        parameters: Vec::new(),
    }
}

/// `[batch, seq, 3 * width]` and `[batch, heads, seq, seq]` to `[batch, seq, width]`
fn composed(qkv: Tensor<3>, mask: Option<&Tensor<4>>) -> Tensor<3> {
    let (d_head, [_, seq, _]) = (WIDTH / HEADS, qkv.dims());
    let [query, key, value] = [0, 1, 2].map(|part| {
        qkv.clone()
            .slice_dim(2, part * WIDTH..(part + 1) * WIDTH)
            .reshape([BATCH, seq, HEADS, d_head])
            .swap_dims(1, 2)
    });
    let query = query.mul_scalar(1.0 / (d_head as f64).sqrt());
    let scores = query.matmul(key.swap_dims(2, 3));
    let future = Tensor::<2, Bool>::tril_mask([seq, seq], 0, &scores.device());
    let future = future.unsqueeze::<4>().expand([BATCH, HEADS, seq, seq]);
    let mut weights = softmax(scores.mask_fill(future, f32::NEG_INFINITY), 3);
    if let Some(mask) = mask {
        weights = weights * mask.clone();
    }
    weights
        .matmul(value)
        .swap_dims(1, 2)
        .reshape([BATCH, seq, WIDTH])
}
