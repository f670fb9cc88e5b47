//! Every fused operation on the device: outputs and all gradients, odd sizes, views, and what has no
//! kernel.

use burn::backend::{Cube, Dispatch};
use burn::prelude::*;
use lynx_burn::kernels::gelu::Form;
use lynx_burn::kernels::random::{KeepProbability, RowSlice};
use lynx_burn::ops::{Drop, FusedOps, Kernels, Optional};

use crate::compare::{assert_same_bits, backward, both, gradient};
use crate::device::wgpu;
use crate::values::{key, leaf, normal, targets};

fn drop(slice: Option<RowSlice>) -> Drop {
    Drop {
        key: key(17),
        keep: KeepProbability::from_drop(0.3).expect("a probability"),
        slice,
    }
}

fn optional<const D: usize>(tensor: Option<&Tensor<D>>) -> Optional<Dispatch> {
    match tensor {
        Some(tensor) => Optional::Present(tensor.clone().into_dispatch()),
        None => Optional::Absent,
    }
}

#[test]
fn layer_norm_is_the_cpus() {
    for (shape, with_beta) in [([3, 4, 33], true), ([5, 7, 64], false), ([1, 1, 1], true)] {
        both("layer norm", 0, |device| {
            let x = leaf(1, shape, device);
            let (gamma, beta) = (leaf(2, [shape[2]], device), leaf(3, [shape[2]], device));
            let y = Tensor::<3>::from_dispatch(Dispatch::layer_norm_fused(
                x.clone().into_dispatch(),
                gamma.clone().into_dispatch(),
                optional(with_beta.then_some(&beta)),
                1e-5,
            ));
            let gradients = backward(&y);
            let mut results = vec![
                ("output", 4e-6, y.into_data()),
                ("gradient", 2e-5, gradient(&x, &gradients)),
                ("gamma's gradient", 2e-5, gradient(&gamma, &gradients)),
            ];
            if with_beta {
                results.push(("beta's gradient", 2e-5, gradient(&beta, &gradients)));
            }
            results
        });
    }
}

#[test]
fn layer_norm_of_a_view_is_the_cpus() {
    both("layer norm of a view", 0, |device| {
        let x = leaf(1, [9, 6, 4], device);
        let gamma = leaf(2, [9], device);
        let view = x.clone().swap_dims(0, 2).slice_dim(1, 1..4);
        let y = Tensor::<3>::from_dispatch(Dispatch::layer_norm_fused(
            view.into_dispatch(),
            gamma.clone().into_dispatch(),
            Optional::Absent,
            1e-5,
        ));
        let gradients = backward(&y);
        vec![
            ("output", 4e-6, y.into_data()),
            ("gradient", 2e-5, gradient(&x, &gradients)),
            ("gamma's gradient", 2e-5, gradient(&gamma, &gradients)),
        ]
    });
}

#[test]
fn gelu_is_the_cpus() {
    for form in [Form::Erf, Form::Tanh] {
        for (width, with_bias) in [(19, true), (64, true), (7, false)] {
            both(&format!("GELU {form:?}"), 0, |device| {
                let x = leaf(1, [width, 6], device);
                let bias = leaf(2, [width], device);
                let y = Tensor::<2>::from_dispatch(Dispatch::bias_gelu(
                    x.clone().transpose().into_dispatch(),
                    optional(with_bias.then_some(&bias)),
                    form,
                ));
                let gradients = backward(&y);
                let mut results = vec![
                    ("output", 4e-6, y.into_data()),
                    ("gradient", 2e-5, gradient(&x, &gradients)),
                ];
                if with_bias {
                    results.push(("bias' gradient", 2e-5, gradient(&bias, &gradients)));
                }
                results
            });
        }
    }
}

#[test]
fn dropout_and_add_is_the_cpus() {
    let half = |first| RowSlice {
        whole: 18,
        first,
        length: 9,
    };
    for slice in [None, Some(half(0)), Some(half(9))] {
        for (with_bias, with_residual) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            both(&format!("dropout {slice:?}"), 0, |device| {
                let (x, residual) = (leaf(1, [9, 10], device), leaf(2, [10, 9], device));
                let bias = leaf(3, [9], device);
                let y = Tensor::<2>::from_dispatch(Dispatch::dropout_add(
                    x.clone().transpose().into_dispatch(),
                    optional(with_bias.then_some(&bias)),
                    optional(with_residual.then_some(&residual)),
                    drop(slice),
                ));
                let gradients = backward(&y);
                let mut results = vec![
                    ("output", 2e-7, y.into_data()),
                    ("gradient", 2e-7, gradient(&x, &gradients)),
                ];
                if with_residual {
                    results.push(("residual's gradient", 0.0, gradient(&residual, &gradients)));
                }
                if with_bias {
                    results.push(("bias' gradient", 2e-5, gradient(&bias, &gradients)));
                }
                results
            });
        }
    }
}

fn attention(what: &str, [heads, seq, d_head]: [usize; 3], drop: Option<Drop>, composed: usize) {
    both(what, composed, |device| {
        let width = heads * d_head;
        let x = leaf(1, [seq, 2, 3 * width], device);
        let y = Tensor::<3>::from_dispatch(Dispatch::causal_attention(
            x.clone().swap_dims(0, 1).into_dispatch(),
            heads,
            drop,
        ));
        let gradients = backward(&y);
        vec![
            ("output", 1e-5, y.into_data()),
            ("gradient", 2e-5, gradient(&x, &gradients)),
        ]
    });
}

#[test]
fn attention_is_the_cpus() {
    for sizes in [[3, 21, 5], [2, 40, 16], [1, 1, 1]] {
        attention("attention", sizes, None, 0);
        attention("attention with dropout", sizes, Some(drop(None)), 0);
    }
    // Of a rank that has the last two of six heads.
    let slice = RowSlice {
        whole: 6 * 12 * 12,
        first: 4 * 12 * 12,
        length: 2 * 12 * 12,
    };
    let drop = drop(Some(slice));
    attention("attention of some heads", [2, 12, 8], Some(drop), 0);
}

#[test]
fn attention_without_a_kernel_is_composed_forward_and_backward() {
    // Heads for which no cube has the memory.
    attention("attention of wide heads", [1, 3, 8192], None, 2);
    // A slice that is not whole heads.
    let slice = RowSlice {
        whole: 30,
        first: 3,
        length: 20,
    };
    attention(
        "attention of a slice",
        [2, 6, 4],
        Some(drop(Some(slice))),
        2,
    );
}

#[test]
fn cross_entropy_is_the_cpus() {
    for (rows, classes) in [(11, 37), (6, 64), (1, 1)] {
        both("cross-entropy", 0, |device| {
            let x = leaf(1, [classes, rows], device);
            let loss = Tensor::<1>::from_dispatch(Dispatch::cross_entropy_fused(
                x.clone().transpose().into_dispatch(),
                targets(rows, classes, device).into_dispatch(),
            ));
            let gradients = backward(&loss);
            vec![
                ("loss", 2e-6, loss.into_data()),
                ("gradient", 2e-5, gradient(&x, &gradients)),
            ]
        });
    }
}

/// The kernel that a recompute runs knows what the forward knew, and is another one.
#[test]
fn a_layer_norm_recomputed_from_its_statistics_has_the_bits_of_the_forward() {
    let Some(device) = wgpu() else { return };
    for (rows, width) in [(1, 1), (5, 33), (64, 768), (3, 1000)] {
        let read = |tensor: Tensor<2>| {
            let primitive = tensor.try_into_primitive::<Cube>();
            primitive.expect("a tensor of the device")
        };
        let row = |seed| {
            let primitive = normal(seed, [width], &device).try_into_primitive::<Cube>();
            primitive.expect("a tensor of the device")
        };
        let x = read(
            normal(1, [rows, width], &device)
                .mul_scalar(3.0)
                .add_scalar(7.0),
        );
        let (gamma, beta) = (row(2), row(3));
        for with_beta in [false, true] {
            let beta = || match with_beta {
                true => Optional::Present(beta.clone()),
                false => Optional::Absent,
            };
            let forward = Cube::layer_norm_forward;
            let (y, mean, rstd) = forward(x.clone(), gamma.clone(), beta(), 1e-5);
            let recompute = Cube::layer_norm_recompute;
            let again = recompute(x.clone(), gamma.clone(), beta(), mean, rstd);
            let [y, again] = [y, again]
                .map(|primitive| Tensor::<2>::from_primitive::<Cube>(primitive).into_data());
            assert_same_bits(&format!("[{rows}, {width}]"), &again, &y);
        }
    }
}
