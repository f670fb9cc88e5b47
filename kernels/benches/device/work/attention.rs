//! Attention, with the tiles that the device can hold.

use std::error::Error;

use cubecl::{ir::ElemType, prelude::Client, std::tensor::TensorHandle};
use lynx_kernels::{
    cube::attention::{
        AttentionBlueprint, AttentionOptions, AttentionProblem, attention, attention_backward,
    },
    random::{DropoutMask, KeepProbability},
};

use super::{key, normal, same, work};
use crate::timing::Work;

pub(super) fn add(
    client: &Client,
    dtype: ElemType,
    seq: usize,
    small: bool,
    works: &mut Vec<Work>,
) -> Result<(), Box<dyn Error>> {
    let (batch, heads) = if small { (1, 2) } else { (16384 / seq, 16) };
    let head_dim = 64;
    let problem = AttentionProblem {
        batch,
        heads,
        seq,
        head_dim,
        element: dtype.size(),
    };
    let shape = [batch, heads, seq, head_dim];
    let [q, k, v, g] = [6, 7, 8, 9].map(|site| normal(client, dtype, &shape, site));
    let keep = KeepProbability::from_drop(0.1)?;
    let tiles = [
        AttentionBlueprint::LARGE,
        AttentionBlueprint::MEDIUM,
        AttentionBlueprint::SMALL,
    ];
    for blueprint in tiles {
        if blueprint.check(client, head_dim).is_err() {
            continue;
        }
        for dropout in [None, Some(DropoutMask::new(key(10), keep))] {
            let options = AttentionOptions {
                dropout,
                blueprint: Some(blueprint),
                ..AttentionOptions::default()
            };
            let made = attention(client, &q, &k, &v, options)?;
            let again = attention(client, &q, &k, &v, options)?;
            same(client, "attention", &made.output, &again.output)?;
            let dropped = if dropout.is_some() { " dropout" } else { "" };
            let name = |way| format!("attention {seq}/{}{dropped} {way}", blueprint.tile);
            let operands = [&q, &k, &v].map(TensorHandle::clone);
            let (bytes, flops) = (problem.forward_bytes(), problem.forward_flops());
            works.push(work(
                client,
                name("forward"),
                bytes,
                Some(flops),
                move |client| {
                    let [q, k, v] = &operands;
                    attention(client, q, k, v, options).map(drop)
                },
            ));
            let operands = [&g, &q, &k, &v].map(TensorHandle::clone);
            let (bytes, flops) = (problem.backward_bytes(), problem.backward_flops());
            works.push(work(
                client,
                name("backward"),
                bytes,
                Some(flops),
                move |client| {
                    let [g, q, k, v] = &operands;
                    let (output, sums) = (&made.output, &made.log_sum_exp);
                    attention_backward(client, g, q, k, v, output, sums, options).map(drop)
                },
            ));
        }
    }
    Ok(())
}
