//! Operations along the residual stream, and the loss.

use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::{gelu as exact, gelu_approximate};
use lynx_burn::kernels::gelu::Form;
use lynx_burn::nn::{CrossEntropyLossConfig, Dropout, DropoutConfig, Gelu, LayerNormConfig};

use super::{BATCH, CLASSES, DROP, Pair, Parameter, ROWS, SEQ, WIDTH, context, device};

const STREAM: [usize; 3] = [BATCH, SEQ, WIDTH];

/// Layer norm with scale and offset.
#[must_use]
pub fn layer_norm() -> Pair {
    let ours = LayerNormConfig::new(WIDTH).init(&device());
    let mut burns = burn::nn::LayerNormConfig::new(WIDTH).init(&device());
    burns.gamma = ours.gamma.clone();
    burns.beta = ours.beta.clone();
    let gamma = Parameter::Vector(ours.gamma.val());
    let beta = ours.beta.as_ref().map(|beta| Parameter::Vector(beta.val()));
    Pair {
        name: "layer norm".to_owned(),
        shape: STREAM,
        ours: Box::new(move |x| ours.forward(x)),
        burns: Box::new(move |x| burns.forward(x)),
        random: false,
        parameters: [gamma].into_iter().chain(beta).collect(),
    }
}

/// GELU between the two products of an MLP.
#[must_use]
pub fn gelu(form: Form) -> Pair {
    Pair {
        name: match form {
            Form::Erf => "gelu",
            Form::Tanh => "gelu, tanh",
        }
        .to_owned(),
        shape: [BATCH, SEQ, 4 * WIDTH],
        ours: Box::new(move |x| {
            let approximate = form == Form::Tanh;
            Gelu { approximate }.forward(x)
        }),
        burns: match form {
            Form::Erf => Box::new(exact),
            Form::Tanh => Box::new(gelu_approximate),
        },
        random: false,
        parameters: Vec::new(),
    }
}

/// Dropout and a residual. Burn's side multiplies by a mask that was made before, ours makes it on the
/// way.
#[must_use]
pub fn dropout_add() -> Pair {
    let residual = Tensor::<3>::random(STREAM, Distribution::Default, &device());
    let (again, place) = (residual.clone(), dropout(DROP));
    let mask = mask(STREAM, DROP);
    Pair {
        name: "dropout and add".to_owned(),
        shape: STREAM,
        ours: Box::new(move |x| place.forward_add(x, residual.clone(), &context())),
        burns: Box::new(move |x| again.clone() + x * mask.clone()),
        random: false,
        parameters: Vec::new(),
    }
}

/// Dropout and a residual, with Burn's own dropout, which draws its mask each time, as in a model. It
/// takes it from a generator that moves on: the values are others than ours.
#[must_use]
pub fn dropout_add_drawn() -> Pair {
    let residual = Tensor::<3>::random(STREAM, Distribution::Default, &device());
    let burns = burn::nn::DropoutConfig::new(DROP).init();
    Pair {
        name: "dropout and add, Burn draws".to_owned(),
        burns: Box::new(move |x| residual.clone() + burns.forward(x)),
        random: true,
        ..dropout_add()
    }
}

/// The mean cross-entropy of a batch.
#[must_use]
pub fn cross_entropy() -> Pair {
    let targets: Vec<i32> = (0..ROWS as i32).map(|i| i * 31 % CLASSES as i32).collect();
    let targets = Tensor::<1, Int>::from_ints(targets.as_slice(), &device());
    let again = targets.clone();
    let ours = CrossEntropyLossConfig::new().init();
    let burns = burn::nn::loss::CrossEntropyLossConfig::new().init(&device());
    Pair {
        name: "cross-entropy".to_owned(),
        shape: [1, ROWS, CLASSES],
        ours: Box::new(move |x| {
            ours.forward(x.squeeze_dim::<2>(0), targets.clone())
                .reshape([1, 1, 1])
        }),
        burns: Box::new(move |x| {
            burns
                .forward(x.squeeze_dim::<2>(0), again.clone())
                .reshape([1, 1, 1])
        }),
        random: false,
        parameters: Vec::new(),
    }
}

fn dropout(probability: f64) -> Dropout {
    DropoutConfig::new(probability).init().expect("valid")
}

/// The mask of the next place, as a tensor.
pub(super) fn mask<const D: usize>(shape: [usize; D], drop: f64) -> Tensor<D> {
    dropout(drop).forward(Tensor::ones(shape, &device()), &context())
}
