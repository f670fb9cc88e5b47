//! The composed defaults against the kernels, on the same backend.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, TensorData};
use lynx_kernels::gelu::Form;
use lynx_kernels::random::{KeepProbability, StreamKey, fill_normal};

use super::{Drop, Kernels, Optional, attention, cross_entropy, dropout_add, gelu, layer_norm};

fn key(seed: u64) -> StreamKey {
    StreamKey {
        seed,
        step: 0,
        micro_batch: 0,
        segment: 0,
        site: 0,
    }
}

fn normal<const D: usize>(seed: u64, shape: [usize; D]) -> FlexTensor {
    let mut values = vec![0.0; shape.iter().product()];
    fill_normal(key(seed), 1.0, &mut values);
    FlexTensor::from_data(TensorData::new(values, shape))
}

fn drop() -> Drop {
    Drop {
        key: key(9),
        keep: KeepProbability::from_drop(0.3).expect("valid"),
        slice: None,
    }
}

fn close(what: &str, found: FlexTensor, expected: FlexTensor) {
    let (found, expected) = (found.into_data(), expected.into_data());
    assert_eq!(found.shape(), expected.shape(), "{what}");
    for (f, e) in found.iter::<f64>().zip(expected.iter::<f64>()) {
        assert!(
            (f - e).abs() <= 1e-5 * (1.0 + e.abs()),
            "{what}: {f} for {e}"
        );
    }
}

fn all<const N: usize>(
    what: &str,
    found: impl Into<[FlexTensor; N]>,
    expected: impl Into<[FlexTensor; N]>,
) {
    let (found, expected): ([FlexTensor; N], [FlexTensor; N]) = (found.into(), expected.into());
    for (index, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        close(&format!("{what} {index}"), found, expected);
    }
}

#[test]
fn layer_norm_composed_is_the_kernel() {
    let (x, dy) = (normal(1, [3, 4, 9]), normal(2, [3, 4, 9]));
    for beta in [None, Some(normal(3, [9]))] {
        let gamma = normal(4, [9]);
        let (optional, epsilon) = (Optional::of(beta.clone()), 1e-5);
        let kernel = Flex::layer_norm_forward(x.clone(), gamma.clone(), optional, epsilon);
        let (_, mean, rstd) = kernel.clone();
        let composed = layer_norm::forward::<Flex>(x.clone(), gamma.clone(), beta, epsilon);
        all::<3>("forward", composed, kernel);
        let run = |f: fn(_, _, _, _, _) -> (FlexTensor, FlexTensor, FlexTensor)| {
            f(
                x.clone(),
                gamma.clone(),
                mean.clone(),
                rstd.clone(),
                dy.clone(),
            )
        };
        let kernel = run(Flex::layer_norm_backward);
        all::<3>("backward", run(layer_norm::backward::<Flex>), kernel);
    }
}

#[test]
fn gelu_composed_is_the_kernel() {
    let (x, dy) = (normal(1, [5, 7]), normal(2, [5, 7]));
    for form in [Form::Erf, Form::Tanh] {
        for bias in [None, Some(normal(3, [7]))] {
            let optional = || Optional::of(bias.clone());
            let kernel = Flex::bias_gelu_forward(x.clone(), optional(), form);
            let composed = gelu::forward::<Flex>(x.clone(), bias.clone(), form);
            close("forward", composed, kernel);
            let (dx, dbias) = Flex::bias_gelu_backward(x.clone(), optional(), form, dy.clone());
            let dbias = dbias.option();
            let composed = gelu::backward::<Flex>(x.clone(), bias.clone(), form, dy.clone());
            close("dx", composed.0, dx);
            assert_eq!(composed.1.is_some(), dbias.is_some());
            if let (Some(found), Some(expected)) = (composed.1, dbias) {
                close("dbias", found, expected);
            }
        }
    }
}

#[test]
fn dropout_and_add_composed_is_the_kernel() {
    let (x, residual, bias) = (normal(1, [5, 7]), normal(2, [5, 7]), normal(3, [7]));
    for bias in [None, Some(bias)] {
        for residual in [None, Some(residual.clone())] {
            let (x, others) = (x.clone(), (bias.clone(), residual));
            let composed =
                dropout_add::forward::<Flex>(x.clone(), others.0.clone(), others.1.clone(), drop());
            let others = (Optional::of(others.0), Optional::of(others.1));
            let kernel = Flex::dropout_add_forward(x, others.0, others.1, drop());
            close("forward", composed, kernel);
        }
        let (dx, dbias) = Flex::dropout_add_backward(x.clone(), bias.is_some(), drop());
        let composed = dropout_add::backward::<Flex>(x.clone(), bias.is_some(), drop());
        close("dx", composed.0, dx);
        if let (Some(found), Some(expected)) = (composed.1, dbias.option()) {
            close("dbias", found, expected);
        }
    }
}

#[test]
fn attention_composed_is_the_kernel() {
    let (qkv, dout) = (normal(1, [2, 9, 24]), normal(2, [2, 9, 8]));
    for drop in [None, Some(drop())] {
        let (out, lse) = Flex::attention_forward(qkv.clone(), 2, drop);
        let composed = attention::forward::<Flex>(qkv.clone(), 2, drop);
        all::<2>("forward", composed, (out.clone(), lse.clone()));
        let composed = attention::backward::<Flex>(qkv.clone(), 2, drop, lse.clone(), dout.clone());
        let kernel = Flex::attention_backward(qkv.clone(), 2, drop, out, lse, dout.clone());
        close("backward", composed, kernel);
    }
}

#[test]
fn cross_entropy_composed_is_the_kernel() {
    let logits = normal(1, [4, 5]);
    let targets = FlexTensor::from_data(TensorData::from([0i64, -1, 4, 2]));
    let (loss, lse) = Flex::cross_entropy_forward(logits.clone(), targets.clone());
    let composed = cross_entropy::forward::<Flex>(logits.clone(), targets.clone());
    all::<2>("forward", composed, (loss, lse.clone()));
    let gradient = FlexTensor::from_data(TensorData::from([0.5f32]));
    let run = |f: fn(_, _, _, _) -> FlexTensor| {
        f(
            logits.clone(),
            targets.clone(),
            lse.clone(),
            gradient.clone(),
        )
    };
    let kernel = run(Flex::cross_entropy_backward);
    close("backward", run(cross_entropy::backward::<Flex>), kernel);
}

#[test]
fn other_types_than_single_precision_take_the_composed_way() {
    let wide =
        |tensor: FlexTensor| FlexTensor::from_data(tensor.into_data().convert_dtype(DType::F64));
    let x = wide(normal(1, [3, 9]));
    let none = || Optional::Absent;
    let (y, mean, _) = Flex::layer_norm_forward(x.clone(), wide(normal(4, [9])), none(), 1e-5);
    assert_eq!(mean.dtype(), DType::F64);
    assert_eq!(y.dtype(), DType::F64);
    let (single, _, _) = Flex::layer_norm_forward(normal(1, [3, 9]), normal(4, [9]), none(), 1e-5);
    close("y", wide(single), y);
    assert_eq!(
        Flex::bias_gelu_forward(x, Optional::Absent, Form::Tanh).dtype(),
        DType::F64
    );
    // Of half precision, statistics keep their own type, and are understood in it.
    let half =
        |tensor: FlexTensor| FlexTensor::from_data(tensor.into_data().convert_dtype(DType::F16));
    let (x, gamma) = (half(normal(1, [3, 9])), half(normal(4, [9])));
    let (y, mean, rstd) = Flex::layer_norm_forward(x.clone(), gamma.clone(), none(), 1e-5);
    assert_eq!((y.dtype(), mean.dtype()), (DType::F16, DType::F32));
    let again = Flex::layer_norm_recompute(x, gamma, none(), mean, rstd);
    assert_eq!(again.into_data().as_bytes(), y.into_data().as_bytes());
}
