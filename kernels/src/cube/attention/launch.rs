//! Checks, outputs and grids.

use cubecl::{prelude::*, std::tensor::TensorHandle};

use super::super::{
    CubeError,
    operand::{F32, buffer, cubes, elementwise, empty, packed, shape, typed},
};
use super::{
    backward, forward,
    operands::{Strided, alike, by_position, first, lanes},
    options::{AttentionOptions, Launch},
};

/// What a forward makes.
#[derive(Debug)]
pub struct AttentionOutput {
    /// `[batch, heads, seq, head_dim]`, laid out as `[batch, seq, heads, head_dim]`.
    pub output: TensorHandle,
    /// Log-sum-exp of every query's scores: `[batch, heads, seq]`, `f32`.
    pub log_sum_exp: TensorHandle,
}

/// What flows back, each as [`AttentionOutput::output`] is laid out.
#[derive(Debug)]
pub struct AttentionGradients {
    /// Of the queries.
    pub query: TensorHandle,
    /// Of the keys.
    pub key: TensorHandle,
    /// Of the values.
    pub value: TensorHandle,
}

/// Causal attention of `query`, `key` and `value`, `[batch, heads, seq, head_dim]` each, of any
/// strides but one in the last dimension: a query attends to the keys up to its own position. Also
/// the recomputation.
///
/// # Errors
///
/// If shapes, elements or strides do not fit, an operand is empty or on another device, there are
/// more than 2^32 queries, heads are too wide for the shared memory, or the mask is of a slice that
/// is not a run of each batch's heads.
pub fn attention(
    client: &Client,
    query: &TensorHandle,
    key: &TensorHandle,
    value: &TensorHandle,
    options: AttentionOptions,
) -> Result<AttentionOutput, CubeError> {
    let dimensions = check(client, query, key, value)?;
    let [batch, heads, seq, head_dim] = dimensions;
    let launch = Launch::new(client, dimensions, &options, &[query, key, value])?;
    let output = by_position(client, dimensions, query.dtype);
    let log_sum_exp = empty(client, &[batch, heads, seq], F32);
    let [q, k, v, o] = [query, key, value, &output].map(|it| Strided::new(client, it));
    let lanes = lanes(client, head_dim, &[query, key, value]);
    // SAFETY: cubes stay below their number and rows below `seq`; the strides are the operands'.
    unsafe {
        forward::forward::launch_unchecked(
            client,
            cubes(client, launch.cubes),
            launch.dim,
            launch.address,
            lanes,
            q.buffer(),
            k.buffer(),
            v.buffer(),
            o.buffer(),
            buffer(&log_sum_exp),
            q.layout(lanes),
            k.layout(lanes),
            v.layout(lanes),
            o.layout(1),
            seq,
            heads,
            launch.tiles,
            launch.cubes,
            launch.scale,
            options.mask(launch.part),
            launch.shape,
            launch.dropout,
            query.dtype,
        );
    }
    Ok(AttentionOutput {
        output,
        log_sum_exp,
    })
}

/// Gradients of queries, keys and values, from the output's `gradient`, the operands and results of
/// the forward, and the same options. `output` and `gradient` may have any strides but one in the
/// last dimension.
///
/// # Errors
///
/// As [`attention`], and if `log_sum_exp` is not `f32` `[batch, heads, seq]`.
#[allow(clippy::too_many_arguments)]
pub fn attention_backward(
    client: &Client,
    gradient: &TensorHandle,
    query: &TensorHandle,
    key: &TensorHandle,
    value: &TensorHandle,
    output: &TensorHandle,
    log_sum_exp: &TensorHandle,
    options: AttentionOptions,
) -> Result<AttentionGradients, CubeError> {
    let dimensions = check(client, query, key, value)?;
    let [batch, heads, seq, head_dim] = dimensions;
    let dtype = query.dtype;
    alike(client, "gradient", gradient, &dimensions, dtype)?;
    alike(client, "output", output, &dimensions, dtype)?;
    typed(client, "log_sum_exp", log_sum_exp, F32)?;
    shape("log_sum_exp", log_sum_exp, &[batch, heads, seq])?;
    let all = [gradient, query, key, value, output];
    let launch = Launch::new(client, dimensions, &options, &all)?;

    let lanes = lanes(client, head_dim, &all);
    let [g, q, k, v, o] = all.map(|it| Strided::new(client, it));
    let queries = batch * heads * seq;
    let statistics = empty(client, &[queries, 2], F32);
    let (count, dim) = elementwise(client, queries);
    // SAFETY: units stay below the number of queries; the strides are the operands'.
    unsafe {
        backward::query_statistics::launch_unchecked(
            client,
            count,
            dim,
            launch.address,
            lanes,
            o.buffer(),
            g.buffer(),
            buffer(&packed(client, log_sum_exp)),
            buffer(&statistics),
            o.layout(lanes),
            g.layout(lanes),
            seq,
            heads,
            queries,
            head_dim / lanes,
            dtype,
        );
    }
    let gradients = AttentionGradients {
        query: by_position(client, dimensions, dtype),
        key: by_position(client, dimensions, dtype),
        value: by_position(client, dimensions, dtype),
    };
    let [dq, dk, dv] =
        [&gradients.query, &gradients.key, &gradients.value].map(|it| Strided::new(client, it));
    // SAFETY: cubes stay below their number and rows below `seq`; the strides are the operands'.
    unsafe {
        backward::of_queries::launch_unchecked(
            client,
            cubes(client, launch.cubes),
            launch.dim,
            launch.address,
            lanes,
            q.buffer(),
            k.buffer(),
            v.buffer(),
            g.buffer(),
            buffer(&statistics),
            dq.buffer(),
            q.layout(lanes),
            k.layout(lanes),
            v.layout(lanes),
            g.layout(lanes),
            dq.layout(1),
            seq,
            heads,
            launch.tiles,
            launch.cubes,
            launch.scale,
            options.mask(launch.part),
            launch.shape,
            launch.dropout,
            dtype,
        );
        backward::of_keys_and_values::launch_unchecked(
            client,
            cubes(client, launch.cubes),
            launch.dim,
            launch.address,
            lanes,
            q.buffer(),
            k.buffer(),
            v.buffer(),
            g.buffer(),
            buffer(&statistics),
            dk.buffer(),
            dv.buffer(),
            q.layout(lanes),
            k.layout(lanes),
            v.layout(lanes),
            g.layout(lanes),
            dk.layout(1),
            seq,
            heads,
            launch.tiles,
            launch.cubes,
            launch.scale,
            options.mask(launch.part),
            launch.shape,
            launch.dropout,
            dtype,
        );
    }
    Ok(gradients)
}

fn check(
    client: &Client,
    query: &TensorHandle,
    key: &TensorHandle,
    value: &TensorHandle,
) -> Result<[usize; 4], CubeError> {
    let dimensions = first(client, "query", query)?;
    alike(client, "key", key, &dimensions, query.dtype)?;
    alike(client, "value", value, &dimensions, query.dtype)?;
    Ok(dimensions)
}
