//! Cross-entropy.

use std::error::Error;

use cubecl::{
    ir::{ElemType, IntKind},
    prelude::Client,
    std::tensor::TensorHandle,
};
use lynx_kernels::cube::cross_entropy::{
    CrossEntropyProblem, cross_entropy, cross_entropy_backward,
};

use super::{normal, same, work};
use crate::timing::Work;

pub(super) fn add(
    client: &Client,
    dtype: ElemType,
    rows: usize,
    vocabulary: usize,
    works: &mut Vec<Work>,
) -> Result<(), Box<dyn Error>> {
    let problem = CrossEntropyProblem {
        rows,
        vocabulary,
        element: dtype.size(),
    };
    let logits = normal(client, dtype, &[rows, vocabulary], 5);
    let classes: Vec<u8> = (0..rows as i32).flat_map(|row| row.to_le_bytes()).collect();
    let classes = TensorHandle::new_contiguous(
        [rows],
        client.create_from_slice(&classes),
        ElemType::Int(IntKind::I32),
    );
    let made = cross_entropy(client, &logits, &classes)?;
    let again = cross_entropy(client, &logits, &classes)?;
    same(client, "cross-entropy", &made.loss, &again.loss)?;
    let operands = (logits.clone(), classes.clone());
    let bytes = problem.forward_bytes();
    works.push(work(
        client,
        "cross-entropy forward",
        bytes,
        None,
        move |client| cross_entropy(client, &operands.0, &operands.1).map(drop),
    ));
    let bytes = problem.backward_bytes();
    works.push(work(
        client,
        "cross-entropy backward",
        bytes,
        None,
        move |client| {
            cross_entropy_backward(client, &logits, &classes, &made.log_sum_exp, &made.loss)
                .map(drop)
        },
    ));
    Ok(())
}
