use burn::tensor::Distribution;
use burn::tensor::activation::{gelu, gelu_approximate, softmax};
use burn::tensor::module::linear as burn_linear;

use super::*;
use crate::ids::{MicroBatchId, SegmentId};
use crate::runtime::chain::{Context, Mode};
use burn::prelude::*;

fn context(mode: Mode) -> Context {
    Context::new(mode, 1, 2, MicroBatchId(3), SegmentId(4))
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.5), device).require_grad()
}

/// Plain autodiff, and Burn's own checkpointing, under which operations are replayed.
fn devices() -> [Device; 2] {
    let device = Device::flex();
    [
        device.clone().autodiff(),
        device.autodiff().gradient_checkpointing(),
    ]
}

/// Values and gradients of two functions of the same inputs are the same to rounding.
fn assert_same<const D: usize, const E: usize>(
    inputs: &[Tensor<D>],
    ours: impl Fn(&[Tensor<D>]) -> Tensor<E>,
    theirs: impl Fn(&[Tensor<D>]) -> Tensor<E>,
    tolerance: f64,
) {
    let (found, expected) = (ours(inputs), theirs(inputs));
    assert_eq!(found.dims(), expected.dims());
    close("value", &found, &expected, tolerance);
    // Weights that differ, so that no element's gradient is another's.
    let factor = Tensor::<E>::random(
        found.dims(),
        Distribution::Normal(0.0, 1.0),
        &found.device(),
    );
    let found = (found * factor.clone()).sum().backward();
    let expected = (expected * factor).sum().backward();
    for (index, input) in inputs.iter().enumerate() {
        let name = format!("gradient {index}");
        let found = input.grad(&found).expect("a gradient");
        let expected = input.grad(&expected).expect("a gradient");
        close(&name, &found, &expected, tolerance);
    }
}

fn close<const D: usize>(what: &str, found: &Tensor<D>, expected: &Tensor<D>, tolerance: f64) {
    let found: Vec<f64> = found.to_data().iter::<f64>().collect();
    let expected: Vec<f64> = expected.to_data().iter::<f64>().collect();
    let scale = expected.iter().fold(1e-30f64, |m, v| m.max(v.abs()));
    for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
        let error = (f - e).abs() / scale;
        assert!(error <= tolerance, "{what}[{i}]: {f} for {e}");
    }
}

#[test]
fn layer_norm_is_burns_with_the_same_weights() {
    for device in devices() {
        let mut theirs = burn::nn::LayerNormConfig::new(33).init(&device);
        let mut ours = LayerNormConfig::new(33).init(&device);
        let gamma = random([33], &device);
        let beta = random([33], &device);
        for (norm_gamma, norm_beta) in [
            (&mut ours.gamma, &mut ours.beta),
            (&mut theirs.gamma, &mut theirs.beta),
        ] {
            *norm_gamma = burn::module::Param::from_tensor(gamma.clone());
            *norm_beta = Some(burn::module::Param::from_tensor(beta.clone()));
        }
        let x = random([4, 5, 33], &device);
        assert_same(
            &[x],
            // Twice, so that one operation's output is another's input to be replayed.
            |x| ours.forward(ours.forward(x[0].clone()).mul_scalar(2.0)),
            |x| theirs.forward(theirs.forward(x[0].clone()).mul_scalar(2.0)),
            1e-5,
        );
        let x = random([6, 33], &device);
        let gradients = ours.forward(x.clone()).square().sum().backward();
        let expected = theirs.forward(x).square().sum().backward();
        let of = |norm: &burn::module::Param<Tensor<1>>, gradients| {
            norm.val().grad(gradients).expect("a gradient")
        };
        close(
            "gamma",
            &of(&ours.gamma, &gradients),
            &of(&theirs.gamma, &expected),
            1e-5,
        );
        let beta = |norm: &Option<burn::module::Param<Tensor<1>>>, gradients| {
            of(norm.as_ref().expect("a beta"), gradients)
        };
        close(
            "beta",
            &beta(&ours.beta, &gradients),
            &beta(&theirs.beta, &expected),
            1e-5,
        );
    }
}

#[test]
fn layer_norm_and_gelu_of_views_are_those_of_copies() {
    for device in devices() {
        let ours = LayerNormConfig::new(5).init(&device);
        let theirs = burn::nn::LayerNormConfig::new(5).init(&device);
        let view = |x: &Tensor<3>| x.clone().swap_dims(0, 2).slice_dim(1, 1..3);
        let x = random([5, 4, 3], &device);
        assert_same(
            &[x],
            |x| Gelu::new().forward(ours.forward(view(&x[0]))),
            |x| gelu(theirs.forward(view(&x[0]))),
            1e-5,
        );
    }
}

#[test]
fn a_product_with_a_weight_is_burns_with_and_without_a_bias() {
    for device in devices() {
        for (rows, input, output) in [(1, 1, 1), (7, 33, 5), (300, 9, 17)] {
            let x = random([2, rows, input], &device);
            let weight = random([1, input, output], &device);
            let bias = random([1, 1, output], &device);
            let ours = |x: &[Tensor<3>], bias: Option<Tensor<1>>| {
                // Twice, so that one operation's output is another's input to be replayed.
                let y = linear(x[0].clone(), x[1].clone().squeeze_dim(0), bias);
                linear(y, x[1].clone().squeeze_dim::<2>(0).transpose(), None)
            };
            let theirs = |x: &[Tensor<3>], bias: Option<Tensor<1>>| {
                let y = burn_linear(x[0].clone(), x[1].clone().squeeze_dim(0), bias);
                burn_linear(y, x[1].clone().squeeze_dim::<2>(0).transpose(), None)
            };
            assert_same(
                &[x.clone(), weight.clone()],
                |x| ours(x, None),
                |x| theirs(x, None),
                1e-5,
            );
            let with = |x: &[Tensor<3>]| Some(x[2].clone().reshape([output]));
            assert_same(
                &[x, weight, bias],
                |x| ours(x, with(x)),
                |x| theirs(x, with(x)),
                1e-5,
            );
        }
    }
}

#[test]
fn a_product_of_views_is_that_of_copies() {
    let [device, _] = devices();
    let view = |x: &Tensor<3>| x.clone().swap_dims(0, 2).slice_dim(1, 1..3);
    // Of a weight that is neither contiguous nor the transpose of one that is.
    let part = |w: &Tensor<3>| w.clone().squeeze_dim::<2>(0).slice_dim(1, 2..6);
    let inputs = [random([5, 4, 3], &device), random([1, 5, 8], &device)];
    assert_same(
        &inputs,
        |x| linear(view(&x[0]), part(&x[1]), None),
        |x| burn_linear(view(&x[0]), part(&x[1]), None),
        1e-5,
    );
}

#[test]
fn a_linear_module_begins_and_loads_as_burns() {
    let device = Device::flex();
    let (ours, theirs) = (
        LinearConfig::new(6, 40).init(&device),
        burn::nn::LinearConfig::new(6, 40).init(&device),
    );
    for (values, other) in [
        (
            ours.weight.val().into_data(),
            theirs.weight.val().into_data(),
        ),
        (
            ours.bias.as_ref().expect("a bias").val().into_data(),
            theirs.bias.as_ref().expect("a bias").val().into_data(),
        ),
    ] {
        // Uniform in the same bounds, the inverse root of the number of inputs.
        let bound = 1.0 / 6f64.sqrt();
        for values in [values, other] {
            let largest = values.iter::<f64>().fold(0.0f64, |m, v| m.max(v.abs()));
            assert!(largest <= bound && largest > 0.8 * bound, "{largest}");
        }
    }
    assert!(
        LinearConfig::new(6, 4)
            .with_bias(false)
            .init(&device)
            .bias
            .is_none()
    );
    let loaded = ours.load_record(theirs.clone().into_record());
    let x = Tensor::<2>::random([3, 6], Distribution::Normal(0.0, 1.0), &device);
    close(
        "value",
        &loaded.forward(x.clone()),
        &theirs.forward(x),
        1e-6,
    );
}

#[test]
#[should_panic(expected = "linear of 6 to 4: the last axis is 5")]
fn a_product_of_the_wrong_width_is_refused() {
    let device = Device::flex();
    let module = LinearConfig::new(6, 4).init(&device);
    let _ = module.forward(Tensor::<2>::zeros([3, 5], &device));
}

#[test]
fn gelu_is_burns_with_and_without_a_bias() {
    for device in devices() {
        let x = random([7, 19], &device);
        let exact = Gelu::new();
        assert_same(
            std::slice::from_ref(&x),
            |x| exact.forward(x[0].clone()),
            |x| gelu(x[0].clone()),
            2e-6,
        );
        let tanh = Gelu::new_approximate();
        assert_same(
            &[x],
            |x| tanh.forward(x[0].clone()),
            |x| gelu_approximate(x[0].clone()),
            2e-6,
        );
        let bias = random([19], &device);
        assert_same(
            &[bias],
            |b| {
                let x = Tensor::<2>::ones([7, 19], &b[0].device());
                exact.forward_biased(x, b[0].clone())
            },
            |b| gelu(Tensor::<2>::ones([7, 19], &b[0].device()) + b[0].clone().unsqueeze()),
            2e-6,
        );
    }
}

#[test]
fn dropout_and_residual_in_one_pass_are_the_same_bits_as_one_after_the_other() {
    let dropout = DropoutConfig::new(0.4).init().expect("valid");
    for device in devices() {
        for mode in [Mode::Training, Mode::Evaluation] {
            let inputs = [random([6, 11], &device), random([6, 11], &device)];
            assert_same(
                &inputs,
                |i| dropout.forward_add(i[0].clone(), i[1].clone(), &context(mode)),
                |i| i[1].clone() + dropout.forward(i[0].clone(), &context(mode)),
                0.0,
            );
        }
    }
}

/// Attention with the whole matrix, of Burn's operations.
fn whole(qkv: &Tensor<3>, heads: usize, dropout: &Dropout, context: &Context) -> Tensor<3> {
    let [batch, seq, width] = qkv.dims();
    let (d_model, d_head) = (width / 3, width / 3 / heads);
    let [query, key, value] = [0, 1, 2].map(|part| {
        qkv.clone()
            .slice_dim(2, part * d_model..(part + 1) * d_model)
            .reshape([batch, seq, heads, d_head])
            .swap_dims(1, 2)
    });
    let scores = query.matmul(key.swap_dims(2, 3)) / (d_head as f64).sqrt();
    let future = Tensor::<2, Bool>::tril_mask([seq, seq], 0, &scores.device());
    let future = future.unsqueeze::<4>().expand([batch, heads, seq, seq]);
    let weights = softmax(scores.mask_fill(future, f32::NEG_INFINITY), 3);
    dropout
        .forward(weights, context)
        .matmul(value)
        .swap_dims(1, 2)
        .reshape([batch, seq, d_model])
}

#[test]
fn attention_is_softmax_and_two_products_with_the_same_weights_dropped() {
    for device in devices() {
        for (seq, probability) in [(1, 0.0), (9, 0.0), (70, 0.0), (9, 0.3), (70, 0.3)] {
            let ours = CausalSelfAttentionConfig::new(3).with_dropout(probability);
            let ours = ours.init().expect("valid");
            let dropout = DropoutConfig::new(probability).init().expect("valid");
            let qkv = random([2, seq, 3 * 3 * 4], &device);
            assert_same(
                &[qkv],
                |x| ours.forward(x[0].clone(), &context(Mode::Training)),
                |x| whole(&x[0], 3, &dropout, &context(Mode::Training)),
                1e-5,
            );
        }
    }
}

#[test]
fn cross_entropy_is_burns_with_and_without_padding() {
    for device in devices() {
        let targets = Tensor::<1, Int>::from_ints([3, 0, 2, 2, 1, 4], &device);
        for padding in [None, Some(vec![2, 4])] {
            let ours = CrossEntropyLossConfig {
                pad_tokens: padding.clone(),
            };
            let theirs =
                burn::nn::loss::CrossEntropyLossConfig::new().with_pad_tokens(padding.clone());
            let (ours, theirs) = (ours.init(), theirs.init(&device));
            let logits = random([6, 5], &device);
            assert_same(
                &[logits],
                |l| ours.forward(l[0].clone().mul_scalar(2.0), targets.clone()),
                |l| theirs.forward(l[0].clone().mul_scalar(2.0), targets.clone()),
                2e-6,
            );
        }
    }
}

#[test]
fn weights_of_burns_layer_norm_load_into_ours_and_back() {
    let device = Device::flex();
    let mut theirs = burn::nn::LayerNormConfig::new(7).init(&device);
    theirs.gamma = burn::module::Param::from_tensor(Tensor::arange(0..7, &device).float());
    let expected = theirs.gamma.val().into_data();
    let ours = LayerNormConfig::new(7).init(&device);
    let ours = ours.load_record(theirs.into_record());
    assert_eq!(ours.gamma.val().into_data(), expected);
    let back = burn::nn::LayerNormConfig::new(7).init(&device);
    let back = back.load_record(ours.into_record());
    assert_eq!(back.gamma.val().into_data(), expected);
}

#[test]
fn without_autodiff_the_values_are_the_same() {
    let device = Device::flex();
    let norm = LayerNormConfig::new(8).init(&device);
    let tracked = LayerNormConfig::new(8).init(&device.clone().autodiff());
    let x = Tensor::<2>::random([3, 8], Distribution::Normal(0.0, 1.0), &device);
    let plain = norm.forward(x.clone()).into_data();
    let x = Tensor::<2>::from_data(x.into_data(), &device.autodiff());
    let autodiff = tracked.forward(x);
    assert_eq!(plain, autodiff.into_data());
}

#[test]
#[should_panic(expected = "layer norm of 8: the last axis is 3")]
fn a_layer_norm_of_another_width_is_refused_by_name() {
    let device = Device::flex();
    let _ = LayerNormConfig::new(8)
        .init(&device)
        .forward(Tensor::<2>::zeros([1, 3], &device));
}

#[test]
#[should_panic(expected = "5 heads do not divide")]
fn heads_that_do_not_divide_the_width_are_refused_by_name() {
    let qkv = Tensor::zeros([1, 2, 12], &Device::flex());
    let attention = CausalSelfAttentionConfig::new(5).init().expect("valid");
    let _ = attention.forward(qkv, &context(Mode::Training));
}
