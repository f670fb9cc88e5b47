//! What is timed, and that it is right.

use std::error::Error;

use cubecl::{
    features::TypeUsage,
    ir::{ElemType, FloatKind, IntKind},
    prelude::Client,
    std::tensor::TensorHandle,
};
use half::{bf16, f16};
use lynx_kernels::{
    cube::{
        CubeError,
        attention::{
            AttentionBlueprint, AttentionOptions, AttentionProblem, attention, attention_backward,
        },
        cross_entropy::{CrossEntropyProblem, cross_entropy, cross_entropy_backward},
        dropout_add::{DropoutAddProblem, dropout_add, dropout_add_backward},
        gelu::{BiasGeluProblem, GeluKind, bias_gelu, bias_gelu_backward},
        layer_norm::{LayerNormProblem, layer_norm, layer_norm_backward, layer_norm_recompute},
    },
    random::{KeepProbability, StreamKey, fill_normal},
};

use crate::{copy::copy, timing::Work};

/// The types of element to time: `f32`, and the first half-sized one that the device has.
pub(crate) fn dtypes(client: &Client) -> Vec<ElemType> {
    let has = |kind: &FloatKind| {
        let uses = client.features().type_usage(ElemType::Float(*kind));
        uses.contains(TypeUsage::Buffer) && uses.contains(TypeUsage::Conversion)
    };
    let half = [FloatKind::BF16, FloatKind::F16].into_iter().find(has);
    [Some(FloatKind::F32), half]
        .into_iter()
        .flatten()
        .map(ElemType::Float)
        .collect()
}

fn key(site: u32) -> StreamKey {
    StreamKey {
        seed: 1,
        step: 0,
        micro_batch: 0,
        segment: 0,
        site,
    }
}

/// Normally distributed numbers on the device; more than 2^20 repeat.
fn normal(client: &Client, dtype: ElemType, shape: &[usize], site: u32) -> TensorHandle {
    let elements: usize = shape.iter().product();
    let mut some = vec![0.0f32; elements.min(1 << 20)];
    fill_normal(key(site), 1.0, &mut some);
    let numbers = some.iter().cycle().take(elements);
    let bytes: Vec<u8> = match dtype {
        ElemType::Float(FloatKind::F16) => numbers
            .flat_map(|&x| f16::from_f32(x).to_le_bytes())
            .collect(),
        ElemType::Float(FloatKind::BF16) => numbers
            .flat_map(|&x| bf16::from_f32(x).to_le_bytes())
            .collect(),
        _ => numbers.flat_map(|x| x.to_le_bytes()).collect(),
    };
    TensorHandle::new_contiguous(shape.to_vec(), client.create_from_slice(&bytes), dtype)
}

/// Fails unless both have the same bytes, and finite numbers as far as one can see.
fn same(
    client: &Client,
    what: &str,
    a: &TensorHandle,
    b: &TensorHandle,
) -> Result<(), Box<dyn Error>> {
    let a = client.read_one(a.handle.clone())?;
    let b = client.read_one(b.handle.clone())?;
    if a[..] != b[..] {
        return Err(format!("{what}: the recomputation has other bits than the forward").into());
    }
    if a.iter().all(|&byte| byte == 0) {
        return Err(format!("{what}: nothing but zeros came out").into());
    }
    Ok(())
}

/// Everything, the copy first.
pub(crate) fn all(
    client: &Client,
    dtype: ElemType,
    small: bool,
) -> Result<Vec<Work>, Box<dyn Error>> {
    let (rows, width) = if small { (256, 256) } else { (8192, 4096) };
    let mut works = Vec::new();
    let bytes = rows * width * dtype.size();
    let [from, to] = [0; 2].map(|_| client.empty(bytes));
    works.push(work(client, "copy", 2 * bytes, None, move |client| {
        copy(client, &from, &to, bytes);
        Ok(())
    }));
    row_works(client, dtype, rows, width, &mut works)?;
    let (tokens, vocabulary) = if small { (128, 1000) } else { (4096, 50304) };
    loss_works(client, dtype, tokens, vocabulary, &mut works)?;
    let sequences: &[usize] = if small { &[64, 128] } else { &[1024, 4096] };
    for &seq in sequences {
        attention_works(client, dtype, seq, small, &mut works)?;
    }
    Ok(works)
}

fn work(
    client: &Client,
    name: impl Into<String>,
    bytes: usize,
    flops: Option<usize>,
    mut run: impl FnMut(&Client) -> Result<(), CubeError> + 'static,
) -> Work {
    let client = client.clone();
    Work {
        name: name.into(),
        bytes,
        flops,
        run: Box::new(move || run(&client).expect("it ran before")),
    }
}

fn row_works(
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
        move |client: &Client| dropout_add(client, &x, Some(&r), Some(&beta), key(9), keep)
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
        move |client| dropout_add_backward(client, &g, true, key(9), keep).map(drop),
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

fn loss_works(
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

fn attention_works(
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
        for dropout in [None, Some((key(10), keep))] {
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
