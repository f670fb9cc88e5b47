//! Checks, outputs and grids.

use cubecl::{
    ir::{ElemType, IntKind, UIntKind},
    prelude::*,
    std::tensor::{TensorHandle, is_contiguous},
};

use super::super::{
    CubeError,
    operand::{
        F32, address, buffer, cubes, elementwise, empty, float, integer, packed, shape, typed,
        units_for, vector_size,
    },
};
use super::kernel;

/// What a forward makes: `[rows]` each, `f32`.
#[derive(Debug)]
pub struct CrossEntropyOutput {
    /// Loss of every row.
    pub loss: TensorHandle,
    /// Log-sum-exp of every row's logits, for the backward.
    pub log_sum_exp: TensorHandle,
}

/// Losses of `logits` `[rows, vocabulary]` against `targets` `[rows]`, of `i32`, `u32` or `i64`.
///
/// # Errors
///
/// If shapes or elements do not fit, or an operand is empty or on another device.
pub fn cross_entropy(
    client: &Client,
    logits: &TensorHandle,
    targets: &TensorHandle,
) -> Result<CrossEntropyOutput, CubeError> {
    let (rows, vocabulary) = check(client, logits, targets)?;
    let address = address(client, rows * vocabulary)?;
    let logits = packed(client, logits);
    let lanes = vector_size(client, vocabulary, &[&logits]);
    let units = units_for(client, vocabulary / lanes, 256);
    let loss = empty(client, &[rows], F32);
    let log_sum_exp = empty(client, &[rows], F32);
    // SAFETY: cubes stay below `rows`, units below the vectors of a row; a target is used as an
    // index only where it lies inside of the row.
    unsafe {
        kernel::forward::launch_unchecked(
            client,
            cubes(client, rows),
            CubeDim::new_1d(units),
            address,
            lanes,
            buffer(&logits),
            buffer(&packed(client, targets)),
            buffer(&loss),
            buffer(&log_sum_exp),
            rows,
            vocabulary / lanes,
            units,
            logits.dtype,
            targets.dtype,
        );
    }
    Ok(CrossEntropyOutput { loss, log_sum_exp })
}

/// Gradients of the logits, in their shape, from `loss_gradient` `[rows]` and the forward's
/// `log_sum_exp` `[rows]`, both `f32`.
///
/// # Errors
///
/// As [`cross_entropy`].
pub fn cross_entropy_backward(
    client: &Client,
    logits: &TensorHandle,
    targets: &TensorHandle,
    log_sum_exp: &TensorHandle,
    loss_gradient: &TensorHandle,
) -> Result<TensorHandle, CubeError> {
    check_backward(client, logits, targets, log_sum_exp, loss_gradient)?;
    let logits = packed(client, logits);
    let output = empty(client, logits.shape(), logits.dtype);
    let argument = buffer(&output);
    launch_backward(
        client,
        &logits,
        targets,
        log_sum_exp,
        loss_gradient,
        argument,
    )?;
    Ok(output)
}

/// As [`cross_entropy_backward`], but the gradients take the place of the logits, which must be
/// contiguous: a chunk then needs the memory of one matrix. Who else holds this buffer sees it
/// change.
///
/// # Errors
///
/// As [`cross_entropy`], and if the logits are not contiguous.
pub fn cross_entropy_backward_in_place(
    client: &Client,
    logits: TensorHandle,
    targets: &TensorHandle,
    log_sum_exp: &TensorHandle,
    loss_gradient: &TensorHandle,
) -> Result<TensorHandle, CubeError> {
    check_backward(client, &logits, targets, log_sum_exp, loss_gradient)?;
    if !is_contiguous(logits.shape(), logits.strides()) {
        return Err(CubeError::Strides {
            operand: "logits",
            found: logits.strides().to_vec(),
            expected: "contiguous, to be replaced in place",
        });
    }
    let argument = BufferArg::alias(0, logits.shape().iter().product());
    launch_backward(
        client,
        &logits,
        targets,
        log_sum_exp,
        loss_gradient,
        argument,
    )?;
    Ok(logits)
}

fn launch_backward(
    client: &Client,
    logits: &TensorHandle,
    targets: &TensorHandle,
    log_sum_exp: &TensorHandle,
    loss_gradient: &TensorHandle,
    output: BufferArg,
) -> Result<(), CubeError> {
    let elements: usize = logits.shape().iter().product();
    let vocabulary = logits.shape()[1];
    let address = address(client, elements)?;
    let lanes = vector_size(client, vocabulary, &[logits]);
    let (count, dim) = elementwise(client, elements / lanes);
    // SAFETY: units stay below the number of vectors, which input and output have; the row follows.
    unsafe {
        kernel::backward::launch_unchecked(
            client,
            count,
            dim,
            address,
            lanes,
            buffer(logits),
            buffer(&packed(client, targets)),
            buffer(&packed(client, log_sum_exp)),
            buffer(&packed(client, loss_gradient)),
            output,
            elements / lanes,
            vocabulary / lanes,
            logits.dtype,
            targets.dtype,
        );
    }
    Ok(())
}

fn check(
    client: &Client,
    logits: &TensorHandle,
    targets: &TensorHandle,
) -> Result<(usize, usize), CubeError> {
    float(client, "logits", logits)?;
    let &[rows, vocabulary] = logits.shape().as_ref() else {
        return Err(CubeError::Rank {
            operand: "logits",
            found: logits.shape().to_vec(),
            expected: "2",
        });
    };
    integer(
        client,
        "targets",
        targets,
        &[
            ElemType::Int(IntKind::I32),
            ElemType::UInt(UIntKind::U32),
            ElemType::Int(IntKind::I64),
        ],
    )?;
    shape("targets", targets, &[rows])?;
    Ok((rows, vocabulary))
}

fn check_backward(
    client: &Client,
    logits: &TensorHandle,
    targets: &TensorHandle,
    log_sum_exp: &TensorHandle,
    loss_gradient: &TensorHandle,
) -> Result<(), CubeError> {
    let (rows, _) = check(client, logits, targets)?;
    for (name, tensor) in [
        ("log_sum_exp", log_sum_exp),
        ("loss_gradient", loss_gradient),
    ] {
        typed(client, name, tensor, F32)?;
        shape(name, tensor, &[rows])?;
    }
    Ok(())
}
