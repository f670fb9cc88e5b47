//! Attention of queries, keys and values side by side.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, cubecl, tensor::CubeTensor};
use cubecl::std::tensor::TensorHandle;
use lynx_kernels::cube::CubeError;
use lynx_kernels::cube::attention::{AttentionOptions, attention, attention_backward};

use super::super::Drop;
use super::tensors::{Home, read};

/// A part of `[batch, seq, parts * d_model]` as the kernels see it: `[batch, heads, seq, d_head]` that
/// lies in the whole.
fn part(whole: &TensorHandle, parts: usize, index: usize, heads: usize) -> TensorHandle {
    let shape = whole.shape();
    let (batch, seq, width) = (shape[0], shape[1], shape[2]);
    let (row, d_head) = (width / parts, width / (parts * heads.max(1)));
    let start = (index * row * whole.dtype.size()) as u64;
    TensorHandle::new(
        whole.handle.clone().offset_start(start),
        [batch, heads, seq, d_head],
        [seq * width, d_head, width, 1].as_slice(),
        whole.dtype,
    )
}

/// Tiles are the largest that the device has room for; dtype, device and head width alone decide, so
/// a recompute has the forward's.
fn options(drop: Option<Drop>) -> AttentionOptions {
    AttentionOptions {
        dropout: drop.map(Drop::mask),
        ..AttentionOptions::default()
    }
}

/// Mixed values, `[batch, seq, d_model]`, and log-sum-exps, `[batch, heads, seq]`.
pub(super) fn forward(
    qkv: &CubeTensor,
    heads: usize,
    drop: Option<Drop>,
) -> Result<(CubeTensor, CubeTensor), CubeError> {
    let home = Home::of(qkv);
    let whole = read(qkv);
    let [q, k, v] = [0, 1, 2].map(|index| part(&whole, 3, index, heads));
    let made = attention(&home.client, &q, &k, &v, options(drop))?;
    let shape = qkv.shape();
    let (batch, seq, width) = (shape[0], shape[1], shape[2] / 3);
    Ok((
        joined(&home, made.output, [batch, seq, width], qkv),
        home.statistics(made.log_sum_exp, Shape::from(vec![batch, heads, seq])),
    ))
}

/// The gradient of `qkv`.
pub(super) fn backward(
    qkv: &CubeTensor,
    heads: usize,
    drop: Option<Drop>,
    out: &CubeTensor,
    lse: &CubeTensor,
    gradient: &CubeTensor,
) -> Result<CubeTensor, CubeError> {
    let home = Home::of(qkv);
    let whole = read(qkv);
    let [q, k, v] = [0, 1, 2].map(|index| part(&whole, 3, index, heads));
    let [out, gradient] = [out, gradient].map(|tensor| part(&read(tensor), 1, 0, heads));
    let (client, lse) = (&home.client, read(lse));
    let made = attention_backward(client, &gradient, &q, &k, &v, &out, &lse, options(drop))?;
    let shape = qkv.shape();
    let dimensions = [shape[0], shape[1], shape[2] / 3];
    let parts = [made.query, made.key, made.value];
    let parts = parts.map(|made| joined(&home, made, dimensions, qkv));
    Ok(CubeBackend::float_cat(parts.into(), 2))
}

/// What a kernel made for each head, side by side: it lies so already.
fn joined(
    home: &Home,
    made: TensorHandle,
    dimensions: [usize; 3],
    like: &CubeTensor,
) -> CubeTensor {
    let joined = TensorHandle::new_contiguous(dimensions.to_vec(), made.handle, made.dtype);
    home.made(joined, like)
}
