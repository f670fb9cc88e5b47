//! How far a device may be from the CPU, and why.
//!
//! Both compute in `f32`, each with an error of its own towards the true value; the bounds are shares of
//! the largest expected magnitude.
//!
//! | result | bound | on lavapipe | reason |
//! | --- | --- | --- | --- |
//! | dropout and add, and its gradient | 2e-7 | 0 | the same mask; one product and two sums, maybe fused |
//! | layer norm, GELU | 4e-6 | 8e-8 | trees of sums of other shapes; the exponential and the fit of erfc of each |
//! | attention | 1e-5 | 6e-7 | a score's error is a relative one of its weight; tiles of other sizes |
//! | cross-entropy | 2e-6 | 2e-7 | a difference of scores, a sum over rows |
//! | their gradients | 2e-5 | 5e-7 | two sums that cancel |
//! | sums over rows (gradients of bias, gamma, beta) | 2e-5 | 3e-7 | signs cancel |
//!
//! "On lavapipe" is the worst that was seen there; the exponentials of other devices are worse (WGSL allows
//! three units and more), so there is room.
//!
//! On the device itself everything is compared bit for bit: kernels use no atomics, and their sums have
//! one order.

use burn::prelude::*;
use burn::tensor::{Gradients, TensorData};

use crate::device::{counting_composed, wgpu};
use crate::values::normal;

/// A named result and its bound.
pub(crate) type Named = (&'static str, f64, TensorData);

/// The gradients of `value`, under weights that differ, so that no element's is another's. They arrive
/// transposed, as a tensor that is not contiguous.
pub(crate) fn backward<const D: usize>(value: &Tensor<D>) -> Gradients {
    let turned = match D {
        1 => value.clone(),
        _ => value.clone().swap_dims(0, D - 1),
    };
    let weights = normal(99, turned.dims(), &turned.device());
    (turned * weights).sum().backward()
}

/// The gradient of a leaf.
pub(crate) fn gradient<const D: usize>(leaf: &Tensor<D>, gradients: &Gradients) -> TensorData {
    leaf.grad(gradients).expect("a gradient").into_data()
}

/// Runs `run` on both: the device is close to the CPU, twice the same, the same when Burn's own
/// checkpointing replays operations, and has a kernel for everything but `composed` calls.
pub(crate) fn both(what: &str, composed: usize, run: impl Fn(&Device) -> Vec<Named>) {
    let Some(device) = wgpu() else { return };
    let expected = run(&Device::flex().autodiff());
    let (found, counted) = counting_composed(|| run(&device.clone().autodiff()));
    // Fusion runs operations later, and not on this thread.
    if !cfg!(feature = "fusion") {
        assert_eq!(counted, composed, "{what}: composed of Burn's operations");
    }
    let again = run(&device.clone().autodiff());
    let replayed = run(&device.autodiff().gradient_checkpointing());
    for (((name, bound, found), again), replayed) in found.iter().zip(&again).zip(&replayed) {
        assert_same_bits(&format!("{what}, {name}, again"), &again.2, found);
        assert_same_bits(&format!("{what}, {name}, replayed"), &replayed.2, found);
        let (_, _, expected) = expected
            .iter()
            .find(|(other, _, _)| other == name)
            .expect("the same results");
        assert_close(&format!("{what}, {name}"), *bound, found, expected);
    }
}

pub(crate) fn assert_same_bits(what: &str, found: &TensorData, expected: &TensorData) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    assert!(
        found.as_bytes() == expected.as_bytes(),
        "{what}: other bits"
    );
}

pub(crate) fn assert_close(what: &str, bound: f64, found: &TensorData, expected: &TensorData) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let expected: Vec<f64> = expected.iter::<f64>().collect();
    let largest = expected.iter().fold(1e-30f64, |most, v| most.max(v.abs()));
    let mut worst = 0.0f64;
    for (index, (found, expected)) in found.iter::<f64>().zip(&expected).enumerate() {
        let error = (found - expected).abs() / largest;
        worst = worst.max(error);
        assert!(
            error <= bound,
            "{what}, element {index}: {found} for {expected}, a share of {error:.2e}"
        );
    }
    println!("{what}: {worst:.1e} of {bound:.1e}");
}
