//! What works on rows.

use std::error::Error;

use cubecl::{ir::ElemType, prelude::Client};
use lynx_kernels::{
    cube::{
        dropout_add::{DropoutAddProblem, dropout_add, dropout_add_backward},
        gelu::{BiasGeluProblem, GeluKind, bias_gelu, bias_gelu_backward},
        layer_norm::{LayerNormProblem, layer_norm, layer_norm_backward, layer_norm_recompute},
    },
    random::{DropoutMask, KeepProbability},
};

use super::{key, normal, same, work};
use crate::timing::Work;

pub(super) fn add(
    client: &Client,
    dtype: ElemType,
    rows: usize,
    width: usize,
    works: &mut Vec<Work>,
) -> Result<(), Box<dyn Error>> {
    let element = dtype.size();
    let [x, r] = [1, 2].map(|site| normal(client, dtype, &[rows, width], site));
    let [gamma, beta] = [3, 4].map(|site| normal(client, dtype, &[width], site));
    let keep = KeepProbability::from_drop(0.1)?;

    let problem = DropoutAddProblem {
        rows,
        width,
        element,
        residual: true,
        bias: true,
    };
    let run = {
        let (x, r, beta) = (x.clone(), r.clone(), beta.clone());
        move |client: &Client| {
            dropout_add(
                client,
                &x,
                Some(&r),
                Some(&beta),
                DropoutMask::new(key(9), keep),
            )
        }
    };
    same(client, "dropout", &run(client)?, &run(client)?)?;
    let bytes = problem.forward_bytes();
    works.push(work(
        client,
        "dropout+add forward",
        bytes,
        None,
        move |client| run(client).map(drop),
    ));
    let g = r.clone();
    let bytes = problem.backward_bytes();
    works.push(work(
        client,
        "dropout+add backward",
        bytes,
        None,
        move |client| {
            dropout_add_backward(client, &g, true, DropoutMask::new(key(9), keep)).map(drop)
        },
    ));

    let problem = LayerNormProblem {
        rows,
        width,
        element,
    };
    let made = layer_norm(client, &x, &gamma, Some(&beta), 1e-5)?;
    let (mean, rstd) = (made.mean, made.rstd);
    let again = layer_norm_recompute(client, &x, &gamma, Some(&beta), &mean, &rstd)?;
    same(client, "layer norm", &made.output, &again)?;
    let operands = (x.clone(), gamma.clone(), beta.clone());
    let bytes = problem.forward_bytes();
    works.push(work(
        client,
        "layer norm forward",
        bytes,
        None,
        move |client| {
            let (x, gamma, beta) = &operands;
            layer_norm(client, x, gamma, Some(beta), 1e-5).map(drop)
        },
    ));
    let operands = (
        x.clone(),
        gamma.clone(),
        beta.clone(),
        mean.clone(),
        rstd.clone(),
    );
    let bytes = problem.recompute_bytes();
    works.push(work(
        client,
        "layer norm recompute",
        bytes,
        None,
        move |client| {
            let (x, gamma, beta, mean, rstd) = &operands;
            layer_norm_recompute(client, x, gamma, Some(beta), mean, rstd).map(drop)
        },
    ));
    let operands = (r.clone(), x.clone(), gamma, mean, rstd);
    let bytes = problem.backward_bytes();
    works.push(work(
        client,
        "layer norm backward",
        bytes,
        None,
        move |client| {
            let (g, x, gamma, mean, rstd) = &operands;
            layer_norm_backward(client, g, x, gamma, mean, rstd).map(drop)
        },
    ));

    let problem = BiasGeluProblem {
        rows,
        width,
        element,
        bias: true,
    };
    for kind in [GeluKind::Erf, GeluKind::Tanh] {
        let first = bias_gelu(client, &x, Some(&beta), kind)?;
        same(
            client,
            "gelu",
            &first,
            &bias_gelu(client, &x, Some(&beta), kind)?,
        )?;
        let operands = (x.clone(), beta.clone());
        let name = format!("bias+gelu {kind:?} forward");
        works.push(work(
            client,
            name,
            problem.forward_bytes(),
            None,
            move |client| bias_gelu(client, &operands.0, Some(&operands.1), kind).map(drop),
        ));
        let operands = (r.clone(), x.clone(), beta.clone());
        let name = format!("bias+gelu {kind:?} backward");
        works.push(work(
            client,
            name,
            problem.backward_bytes(),
            None,
            move |client| {
                let (g, x, beta) = &operands;
                bias_gelu_backward(client, g, x, Some(beta), kind).map(drop)
            },
        ));
    }
    Ok(())
}
