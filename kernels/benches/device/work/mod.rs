//! What is timed, and that it is right.

use std::error::Error;

use cubecl::{
    features::TypeUsage,
    ir::{ElemType, FloatKind},
    prelude::Client,
    std::tensor::TensorHandle,
};
use half::{bf16, f16};
use lynx_kernels::{
    cube::CubeError,
    random::{StreamKey, fill_normal},
};

use crate::{copy::copy, timing::Work};

mod attention;
mod loss;
mod rows;

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

/// Fails unless both have the same bytes, and others than zeros.
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
    rows::add(client, dtype, rows, width, &mut works)?;
    let (tokens, vocabulary) = if small { (128, 1000) } else { (4096, 50304) };
    loss::add(client, dtype, tokens, vocabulary, &mut works)?;
    let sequences: &[usize] = if small { &[64, 128] } else { &[1024, 4096] };
    for &seq in sequences {
        attention::add(client, dtype, seq, small, &mut works)?;
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
