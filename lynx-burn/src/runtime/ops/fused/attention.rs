//! Causal attention: its gradient, and its composition of Burn's operations.
//!
//! The composition holds the matrix of weights as a whole; it is what a backend without a kernel
//! does.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, TensorMetadata};
use burn::tensor::{Shape, Slice, TensorData};

use super::dropout_add::mask;
use super::notes::noted;
use super::shapes::{as_statistics, like};
use super::{Drop, Kernels};

/// The gradient of queries, keys and values.
#[derive(Debug)]
struct Attention;

impl<B: Kernels> Backward<B, 1> for Attention {
    /// Input, heads, dropout, output and log-sum-exp.
    type State = (NodeId, usize, Option<Drop>, FloatTensor<B>, FloatTensor<B>);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let (qkv, heads, drop, out, lse) = ops.state;
        let qkv = checkpointer.retrieve_node_output::<FloatTensor<B>>(qkv);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            let found = B::attention_backward(qkv, heads, drop, out, lse, gradient);
            grads.register::<B>(parent.id, found);
        }
    }
}

/// The operation under autodiff. Products make it bound by computing, so Burn's own checkpointing
/// keeps its output.
pub(super) fn tracked<B: Kernels, C: CheckpointStrategy>(
    qkv: FloatTensor<Autodiff<B, C>>,
    heads: usize,
    drop: Option<Drop>,
) -> FloatTensor<Autodiff<B, C>> {
    let read = || qkv.primitive().clone();
    let (found, [lse]) = noted(("attention", qkv.primitive()), || {
        let (out, lse) = B::attention_forward(read(), heads, drop);
        (out, [lse])
    });
    let out = found.unwrap_or_else(|| B::attention_recompute(read(), heads, drop, lse.clone()));
    match Attention
        .prepare::<C>([qkv.node()])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let qkv = prep.checkpoint(&qkv);
            prep.finish((qkv, heads, drop, out.clone(), lse), out)
        }
        OpsKind::UnTracked(prep) => prep.finish(out),
    }
}

/// Queries, keys and values of each head, `[batch, heads, seq, d_head]`, and the factor for scores.
fn split<B: Backend>(qkv: FloatTensor<B>, heads: usize) -> ([FloatTensor<B>; 3], f64) {
    let shape = qkv.shape();
    let (batch, seq, width) = (shape[0], shape[1], shape[2]);
    let d_head = width / (3 * heads);
    let qkv = B::float_reshape(qkv, Shape::from(vec![batch, seq, 3, heads, d_head]));
    // [3, batch, heads, seq, d_head]
    let qkv = B::float_permute(qkv, &[2, 0, 3, 1, 4]);
    let part = |part: isize| {
        let mut slices = vec![Slice::full(); 5];
        slices[0] = Slice::new(part, Some(part + 1), 1);
        let part = B::float_slice(qkv.clone(), &slices);
        B::float_reshape(part, Shape::from(vec![batch, heads, seq, d_head]))
    };
    ([part(0), part(1), part(2)], 1.0 / (d_head as f64).sqrt())
}

/// Scaled scores, minus infinity for what lies in the future. `[batch, heads, seq, seq]`
fn scores<B: Backend>(queries: FloatTensor<B>, keys: FloatTensor<B>, scale: f64) -> FloatTensor<B> {
    let seq = queries.shape()[2];
    let future: Vec<f32> = (0..seq * seq)
        .map(|i| match i % seq > i / seq {
            true => f32::NEG_INFINITY,
            false => 0.0,
        })
        .collect();
    let future = TensorData::new(future, [1, 1, seq, seq]).convert_dtype(queries.dtype());
    let future = B::float_from_data(future, &queries.device());
    let queries = B::float_mul_scalar(queries, scale.into());
    B::float_add(
        B::float_matmul(queries, B::float_swap_dims(keys, 2, 3)),
        future,
    )
}

/// Heads side by side: `[batch, heads, seq, d_head]` to `[batch, seq, heads * d_head]`
fn joined<B: Backend>(heads: FloatTensor<B>) -> FloatTensor<B> {
    let shape = heads.shape();
    let (batch, count, seq, d_head) = (shape[0], shape[1], shape[2], shape[3]);
    B::float_reshape(
        B::float_swap_dims(heads, 1, 2),
        Shape::from(vec![batch, seq, count * d_head]),
    )
}

fn dropped<B: Backend>(weights: FloatTensor<B>, drop: Option<Drop>) -> FloatTensor<B> {
    match drop {
        Some(drop) => {
            let mask = mask::<B>(weights.shape(), weights.dtype(), &weights.device(), drop);
            B::float_mul(weights, mask)
        }
        None => weights,
    }
}

/// Forward, composed.
pub(super) fn forward<B: Backend>(
    qkv: FloatTensor<B>,
    heads: usize,
    drop: Option<Drop>,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let ([queries, keys, values], scale) = split::<B>(qkv, heads);
    let scores = scores::<B>(queries, keys, scale);
    let largest = B::float_max_dim(scores.clone(), 3);
    let sum = B::float_sum_dim(
        B::float_exp(B::float_sub(scores.clone(), largest.clone())),
        3,
    );
    let lse = B::float_add(largest, B::float_log(sum));
    let weights = B::float_exp(B::float_sub(scores, lse.clone()));
    let mixed = B::float_matmul(dropped::<B>(weights, drop), values);
    let shape = lse.shape();
    let lse = B::float_reshape(lse, Shape::from(vec![shape[0], shape[1], shape[2]]));
    (joined::<B>(mixed), as_statistics::<B>(lse))
}

/// Backward, composed.
pub(super) fn backward<B: Backend>(
    qkv: FloatTensor<B>,
    heads: usize,
    drop: Option<Drop>,
    lse: FloatTensor<B>,
    gradient: FloatTensor<B>,
) -> FloatTensor<B> {
    let ([queries, keys, values], scale) = split::<B>(qkv, heads);
    let shape = queries.shape();
    let (batch, seq, d_head) = (shape[0], shape[2], shape[3]);
    let lse = B::float_reshape(lse, Shape::from(vec![batch, heads, seq, 1]));
    let lse = like::<B>(lse, &queries);
    let weights = B::float_exp(B::float_sub(
        scores::<B>(queries.clone(), keys.clone(), scale),
        lse,
    ));
    let gradient = B::float_reshape(gradient, Shape::from(vec![batch, seq, heads, d_head]));
    let gradient = B::float_swap_dims(gradient, 1, 2);
    let kept = dropped::<B>(weights.clone(), drop);
    let dvalues = B::float_matmul(B::float_swap_dims(kept, 2, 3), gradient.clone());
    let dweights = B::float_matmul(gradient, B::float_swap_dims(values, 2, 3));
    let dweights = dropped::<B>(dweights, drop);
    let mean = B::float_sum_dim(B::float_mul(weights.clone(), dweights.clone()), 3);
    let dscores = B::float_mul(weights, B::float_sub(dweights, mean));
    let dscores = B::float_mul_scalar(dscores, scale.into());
    let dqueries = B::float_matmul(dscores.clone(), keys);
    let dkeys = B::float_matmul(B::float_swap_dims(dscores, 2, 3), queries);
    let parts = [dqueries, dkeys, dvalues].map(joined::<B>);
    B::float_cat(parts.into(), 2)
}
