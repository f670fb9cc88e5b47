//! The same operations on half-precision numbers, where the device holds them, against the CPU in `f32`.
//!
//! Both begin with the same numbers, rounded to half. Kernels compute in `f32` and round what they read
//! and write, so an error is a few roundings of a half: of the output, of the gradient that comes in, and
//! of the one that leaves. Where many are summed, or a score is an exponent, it is more of them.

use burn::backend::Dispatch;
use burn::prelude::*;
use burn::tensor::{FloatDType, TensorData};
use lynx_burn::kernels::gelu::Form;
use lynx_burn::kernels::random::KeepProbability;
use lynx_burn::ops::{Drop, FusedOps, Optional};

use crate::compare::{Named, assert_close, assert_same_bits, backward, gradient};
use crate::device::{counting_composed, wgpu};
use crate::values::{key, leaf, targets};

/// Half of the distance between one and the next number.
fn rounding(dtype: FloatDType) -> f64 {
    match dtype {
        FloatDType::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    }
}

/// How a side holds the numbers.
#[derive(Clone, Copy)]
struct Held {
    dtype: FloatDType,
    /// On the CPU they are rounded, and held in `f32`.
    wide: bool,
}

impl Held {
    fn of<const D: usize>(self, leaf: &Tensor<D>) -> Tensor<D> {
        let half = leaf.clone().cast(self.dtype);
        match self.wide {
            true => half.cast(FloatDType::F32),
            false => half,
        }
    }
}

/// A result and its gradients by name, with bounds in roundings.
fn results<const D: usize>(y: Tensor<D>, leaves: &[(&'static str, f64, &dyn Leaf)]) -> Vec<Named> {
    let gradients = backward(&y.clone().cast(FloatDType::F32));
    let output = ("output", 4.0, y.cast(FloatDType::F32).into_data());
    let of_leaves = leaves
        .iter()
        .map(|&(name, bound, leaf)| (name, bound, leaf.gradient(&gradients)));
    std::iter::once(output).chain(of_leaves).collect()
}

/// A tensor of any rank whose gradient is asked for.
trait Leaf {
    fn gradient(&self, gradients: &burn::tensor::Gradients) -> TensorData;
}

impl<const D: usize> Leaf for Tensor<D> {
    fn gradient(&self, gradients: &burn::tensor::Gradients) -> TensorData {
        gradient(self, gradients)
    }
}

/// Runs `run` on both for every type of half precision that the device has.
fn both(what: &str, run: impl Fn(&Device, Held) -> Vec<Named>) {
    let Some(device) = wgpu() else { return };
    for dtype in [FloatDType::F16, FloatDType::BF16] {
        if !device.supports_dtype(dtype) {
            println!("{what}: the device has no {dtype:?}");
            continue;
        }
        let held = |wide| Held { dtype, wide };
        let expected = run(&Device::flex().autodiff(), held(true));
        let here = || run(&device.clone().autodiff(), held(false));
        let (found, composed) = counting_composed(here);
        if !cfg!(feature = "fusion") {
            assert_eq!(composed, 0, "{what}: composed of Burn's operations");
        }
        for (((name, roundings, found), (_, _, expected)), (_, _, again)) in
            found.iter().zip(&expected).zip(here())
        {
            let what = format!("{what}, {dtype:?}, {name}");
            assert_same_bits(&what, &again, found);
            assert_close(&what, roundings * rounding(dtype), found, expected);
        }
    }
}

#[test]
fn layer_norm_in_half_precision_is_the_cpus() {
    both("layer norm", |device, held| {
        let (x, gamma) = (leaf(1, [5, 3, 65], device), leaf(2, [65], device));
        let beta = leaf(3, [65], device);
        let y = Tensor::<3>::from_dispatch(Dispatch::layer_norm_fused(
            held.of(&x).into_dispatch(),
            held.of(&gamma).into_dispatch(),
            Optional::Present(held.of(&beta).into_dispatch()),
            1e-5,
        ));
        let leaves: [(_, _, &dyn Leaf); 3] = [
            ("gradient", 8.0, &x),
            ("gamma's gradient", 8.0, &gamma),
            ("beta's gradient", 8.0, &beta),
        ];
        results(y, &leaves)
    });
}

#[test]
fn gelu_in_half_precision_is_the_cpus() {
    for form in [Form::Erf, Form::Tanh] {
        both(&format!("GELU {form:?}"), |device, held| {
            let (x, bias) = (leaf(1, [7, 33], device), leaf(2, [33], device));
            let y = Tensor::<2>::from_dispatch(Dispatch::bias_gelu(
                held.of(&x).into_dispatch(),
                Optional::Present(held.of(&bias).into_dispatch()),
                form,
            ));
            let leaves: [(_, _, &dyn Leaf); 2] =
                [("gradient", 8.0, &x), ("bias' gradient", 8.0, &bias)];
            results(y, &leaves)
        });
    }
}

#[test]
fn dropout_and_add_in_half_precision_is_the_cpus() {
    both("dropout", |device, held| {
        let (x, residual) = (leaf(1, [9, 31], device), leaf(2, [9, 31], device));
        let drop = Drop {
            key: key(17),
            keep: KeepProbability::from_drop(0.3).expect("a probability"),
            slice: None,
        };
        let y = Tensor::<2>::from_dispatch(Dispatch::dropout_add(
            held.of(&x).into_dispatch(),
            Optional::Absent,
            Optional::Present(held.of(&residual).into_dispatch()),
            drop,
        ));
        let leaves: [(_, _, &dyn Leaf); 2] = [
            ("gradient", 4.0, &x),
            ("residual's gradient", 4.0, &residual),
        ];
        results(y, &leaves)
    });
}

#[test]
fn attention_in_half_precision_is_the_cpus() {
    both("attention", |device, held| {
        let x = leaf(1, [2, 24, 3 * 32], device);
        let y = Tensor::<3>::from_dispatch(Dispatch::causal_attention(
            held.of(&x).into_dispatch(),
            2,
            None,
        ));
        let leaves: [(_, _, &dyn Leaf); 1] = [("gradient", 16.0, &x)];
        results(y, &leaves)
    });
}

#[test]
fn cross_entropy_in_half_precision_is_the_cpus() {
    both("cross-entropy", |device, held| {
        let x = leaf(1, [11, 64], device);
        let loss = Tensor::<1>::from_dispatch(Dispatch::cross_entropy_fused(
            held.of(&x).into_dispatch(),
            targets(11, 64, device).into_dispatch(),
        ));
        let leaves: [(_, _, &dyn Leaf); 1] = [("gradient", 8.0, &x)];
        results(loss, &leaves)
    });
}
