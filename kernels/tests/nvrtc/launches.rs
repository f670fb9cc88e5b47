//! One launch of every kernel and of its variants.

use lynx_kernels::{
    cube::{
        attention::{AttentionOptions, attention, attention_backward},
        cross_entropy::{cross_entropy, cross_entropy_backward, cross_entropy_backward_in_place},
        cubecl::{
            ir::{ElemType, FloatKind, IntKind},
            prelude::Client,
            std::tensor::TensorHandle,
        },
        dropout_add::{dropout_add, dropout_add_backward},
        gelu::{GeluKind, bias_gelu, bias_gelu_backward},
        layer_norm::{layer_norm, layer_norm_backward, layer_norm_recompute},
    },
    random::{DropoutMask, KeepProbability, RowSlice, StreamKey},
};

/// A part of the name of each kernel.
pub(crate) const KERNELS: [&str; 15] = [
    "reduce::fold_rows_kernel",
    "dropout_add::kernel::forward",
    "dropout_add::kernel::backward::",
    "dropout_add::kernel::backward_with_bias",
    "layer_norm::forward::forward",
    "layer_norm::forward::recompute",
    "layer_norm::backward::backward",
    "gelu::kernel::forward",
    "gelu::kernel::backward",
    "cross_entropy::kernel::forward",
    "cross_entropy::kernel::backward",
    "attention::forward::forward",
    "attention::backward::statistics",
    "attention::backward::queries",
    "attention::backward::keys_values",
];

pub(crate) fn all(client: &Client) {
    let [single, half] = [FloatKind::F32, FloatKind::BF16].map(ElemType::Float);
    // Rows of GPT-2's width, and odd ones, which are read one element at a time.
    row_kernels(client, single, 1023);
    for dtype in [single, half] {
        row_kernels(client, dtype, 1024);
        // A unit's keys are the counter's blocks, and they are not; narrow heads and wide ones.
        attention_kernels(client, dtype, 1024, 64, true);
        attention_kernels(client, dtype, 1023, 128, true);
        attention_kernels(client, dtype, 1024, 64, false);
    }
}

fn tensor(client: &Client, dtype: ElemType, shape: &[usize]) -> TensorHandle {
    let bytes = shape.iter().product::<usize>() * dtype.size();
    TensorHandle::new_contiguous(shape.to_vec(), client.empty(bytes), dtype)
}

fn chance() -> DropoutMask {
    let key = StreamKey {
        seed: 1,
        step: 2,
        micro_batch: 3,
        segment: 4,
        site: 5,
    };
    let keep = KeepProbability::from_drop(0.1).expect("a probability");
    DropoutMask::new(key, keep)
}

fn row_kernels(client: &Client, dtype: ElemType, width: usize) {
    let x = tensor(client, dtype, &[8, width]);
    let row = tensor(client, dtype, &[width]);
    // Of the whole, and of a slice that keeps the counter's blocks together and one that cuts them.
    let slice = |first| RowSlice {
        whole: 2 * width,
        first,
        length: width,
    };
    for mask in [chance(), chance().of(slice(0)), chance().of(slice(1))] {
        dropout_add(client, &x, Some(&x), Some(&row), mask).expect("valid");
        dropout_add_backward(client, &x, false, mask).expect("valid");
        dropout_add_backward(client, &x, true, mask).expect("valid");
    }

    let made = layer_norm(client, &x, &row, Some(&row), 1e-5).expect("valid");
    let (mean, rstd) = (&made.mean, &made.rstd);
    layer_norm_recompute(client, &x, &row, Some(&row), mean, rstd).expect("valid");
    layer_norm_backward(client, &x, &x, &row, mean, rstd).expect("valid");

    for kind in [GeluKind::Erf, GeluKind::Tanh] {
        bias_gelu(client, &x, Some(&row), kind).expect("valid");
        bias_gelu_backward(client, &x, &x, Some(&row), kind).expect("valid");
    }

    let classes = tensor(client, ElemType::Int(IntKind::I32), &[8]);
    let made = cross_entropy(client, &x, &classes).expect("valid");
    let (loss, sums) = (&made.loss, &made.log_sum_exp);
    cross_entropy_backward(client, &x, &classes, sums, loss).expect("valid");
    cross_entropy_backward_in_place(client, x, &classes, sums, loss).expect("valid");
}

fn attention_kernels(client: &Client, dtype: ElemType, seq: usize, head_dim: usize, dropout: bool) {
    let q = tensor(client, dtype, &[1, 2, seq, head_dim]);
    let options = AttentionOptions {
        dropout: dropout.then(chance),
        ..AttentionOptions::default()
    };
    let made = attention(client, &q, &q, &q, options).expect("valid");
    let sums = &made.log_sum_exp;
    attention_backward(client, &q, &q, &q, &q, &made.output, sums, options).expect("valid");
}
