//! What is compared.

use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::{gelu, softmax};
use lynx_burn::ids::{MicroBatchId, SegmentId};
use lynx_burn::nn::{
    CausalSelfAttentionConfig, CrossEntropyLossConfig, Dropout, DropoutConfig, Gelu,
    LayerNormConfig,
};
use lynx_burn::{Context, Mode};

use crate::{BATCH, CLASSES, HEADS, SEQ, WIDTH, device};

/// A function of one tensor, differentiable.
pub(crate) type Function = Box<dyn Fn(Tensor<3>) -> Tensor<3>>;

/// One operation, ours and Burn's.
pub(crate) struct Pair {
    pub(crate) name: String,
    /// How often a GPT layer runs it; nothing for what is outside layers.
    pub(crate) in_layer: f64,
    pub(crate) shape: [usize; 3],
    pub(crate) ours: Function,
    pub(crate) burns: Function,
}

fn context() -> Context {
    Context::new(Mode::Training, 1, 2, MicroBatchId(0), SegmentId(0))
}

fn dropout(probability: f64) -> Dropout {
    DropoutConfig::new(probability).init().expect("valid")
}

/// The operations of a GPT layer that are no product with a weight, and the loss.
pub(crate) fn pairs(drop: f64) -> Vec<Pair> {
    let device = device();
    let stream = [BATCH, SEQ, WIDTH];
    let ours = LayerNormConfig::new(WIDTH).init(&device);
    let theirs = burn::nn::LayerNormConfig::new(WIDTH).init(&device);
    let residual = Tensor::<3>::random(stream, Distribution::Default, &device);
    let (again, place) = (residual.clone(), dropout(drop));
    let rows = BATCH * SEQ;
    let targets: Vec<i32> = (0..rows as i32).map(|i| i * 31 % CLASSES as i32).collect();
    let targets = Tensor::<1, Int>::from_ints(targets.as_slice(), &device);
    let again_targets = targets.clone();
    let loss = CrossEntropyLossConfig::new().init();
    let burns_loss = burn::nn::loss::CrossEntropyLossConfig::new().init(&device);
    let mut pairs = vec![
        Pair {
            name: "layer norm".to_owned(),
            in_layer: 2.0,
            shape: stream,
            ours: Box::new(move |x| ours.forward(x)),
            burns: Box::new(move |x| theirs.forward(x)),
        },
        Pair {
            name: "gelu".to_owned(),
            in_layer: 1.0,
            shape: [BATCH, SEQ, 4 * WIDTH],
            ours: Box::new(|x| Gelu::new().forward(x)),
            burns: Box::new(gelu),
        },
        Pair {
            name: "dropout and add".to_owned(),
            in_layer: 2.0,
            shape: stream,
            ours: Box::new(move |x| place.forward_add(x, residual.clone(), &context())),
            // Burn's own dropout draws from one generator and could not be compared.
            burns: Box::new({
                let mask = mask(stream, drop);
                move |x| again.clone() + x * mask.clone()
            }),
        },
        Pair {
            name: "cross-entropy".to_owned(),
            in_layer: 0.0,
            shape: [1, rows, CLASSES],
            ours: Box::new(move |x| {
                loss.forward(x.squeeze_dim::<2>(0), targets.clone())
                    .reshape([1, 1, 1])
            }),
            burns: Box::new(move |x| {
                burns_loss
                    .forward(x.squeeze_dim::<2>(0), again_targets.clone())
                    .reshape([1, 1, 1])
            }),
        },
    ];
    pairs.push(attention(SEQ, 0.0, 1.0));
    pairs.push(attention(SEQ, drop, 0.0));
    pairs
}

/// The mask of the next place, as a tensor.
fn mask<const D: usize>(shape: [usize; D], drop: f64) -> Tensor<D> {
    dropout(drop).forward(Tensor::ones(shape, &device()), &context())
}

/// Attention, and the same with the whole matrix, as a GPT in Burn is usually written.
pub(crate) fn attention(seq: usize, drop: f64, in_layer: f64) -> Pair {
    let ours = CausalSelfAttentionConfig::new(HEADS).with_dropout(drop);
    let ours = ours.init().expect("valid");
    let mask = (drop > 0.0).then(|| mask([BATCH, HEADS, seq, seq], drop));
    Pair {
        name: format!("attention, dropout {drop}"),
        in_layer,
        shape: [BATCH, seq, 3 * WIDTH],
        ours: Box::new(move |x| ours.forward(x, &context())),
        burns: Box::new(move |qkv| {
            let d_head = WIDTH / HEADS;
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
            if let Some(mask) = &mask {
                weights = weights * mask.clone();
            }
            weights
                .matmul(value)
                .swap_dims(1, 2)
                .reshape([BATCH, seq, WIDTH])
        }),
    }
}
