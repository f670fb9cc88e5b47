//! What operations will yield, told before they run: Burn's fusion queues them by these shapes and
//! types.

use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::Shape;
use lynx_kernels::gelu::Form;

use super::shapes::{one_a_row, statistics_of};
use super::{Drop, OptionalMetadata};

/// The statistics of rows of a tensor, in such a shape.
fn statistics(of: &TensorSpec, shape: Shape) -> TensorSpec {
    TensorSpec::new(shape, statistics_of(of.dtype))
}

/// The gradient of a vector along the last axis.
fn vector(of: &TensorSpec) -> TensorSpec {
    let last = of.shape.to_vec().last().copied().unwrap_or(1);
    TensorSpec::new(Shape::from(vec![last]), of.dtype)
}

fn gradient_if(there: bool, of: &TensorSpec) -> OptionalMetadata {
    match there {
        true => OptionalMetadata::Present(vector(of)),
        false => OptionalMetadata::Absent,
    }
}

pub(super) fn layer_norm(
    x: &TensorSpec,
    _gamma: &TensorSpec,
    _beta: &OptionalMetadata,
    _epsilon: &f64,
) -> (TensorSpec, TensorSpec, TensorSpec) {
    let of_rows = statistics(x, one_a_row(&x.shape));
    (x.clone(), of_rows.clone(), of_rows)
}

pub(super) fn layer_norm_gradients(
    x: &TensorSpec,
    _gamma: &TensorSpec,
    _mean: &TensorSpec,
    _rstd: &TensorSpec,
    _gradient: &TensorSpec,
) -> (TensorSpec, TensorSpec, TensorSpec) {
    (x.clone(), vector(x), vector(x))
}

pub(super) fn bias_gelu_gradients(
    x: &TensorSpec,
    bias: &OptionalMetadata,
    _form: &Form,
    _gradient: &TensorSpec,
) -> (TensorSpec, OptionalMetadata) {
    let there = matches!(bias, OptionalMetadata::Present(_));
    (x.clone(), gradient_if(there, x))
}

pub(super) fn dropout_add_gradients(
    gradient: &TensorSpec,
    with_bias: &bool,
    _drop: &Drop,
) -> (TensorSpec, OptionalMetadata) {
    (gradient.clone(), gradient_if(*with_bias, gradient))
}

/// The shape of mixed values, from that of queries, keys and values.
pub(super) fn mixed(qkv: &Shape) -> Shape {
    Shape::from(vec![qkv[0], qkv[1], qkv[2] / 3])
}

pub(super) fn attention(
    qkv: &TensorSpec,
    heads: &usize,
    _drop: &Option<Drop>,
) -> (TensorSpec, TensorSpec) {
    let out = TensorSpec::new(mixed(&qkv.shape), qkv.dtype);
    let lse = Shape::from(vec![qkv.shape[0], *heads, qkv.shape[1]]);
    (out, statistics(qkv, lse))
}

pub(super) fn cross_entropy(
    logits: &TensorSpec,
    _targets: &TensorSpec,
) -> (TensorSpec, TensorSpec) {
    let loss = TensorSpec::new(Shape::from(vec![1]), logits.dtype);
    (loss, statistics(logits, one_a_row(&logits.shape)))
}
