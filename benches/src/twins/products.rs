//! Products with a weight.

use burn::tensor::module;
use lynx_burn::kernels::linear::Stored;
use lynx_burn::nn::linear;

use super::{BATCH, Pair, Parameter, SEQ, normal};

/// A product of the residual stream's rows, with a bias if the weight lies by inputs. One that lies by
/// outputs has none: it is the head's, an embedding's weight read across.
#[must_use]
pub fn product(inputs: usize, outputs: usize, stored: Stored) -> Pair {
    let across = stored == Stored::ByOutput;
    let held = match across {
        true => [outputs, inputs],
        false => [inputs, outputs],
    };
    let weight = normal(held).require_grad();
    let bias = (!across).then(|| normal([outputs]).require_grad());
    let parameters = [Parameter::Matrix(weight.clone())]
        .into_iter()
        .chain(bias.clone().map(Parameter::Vector))
        .collect();
    let operands = move || {
        let weight = weight.clone();
        let weight = if across { weight.transpose() } else { weight };
        (weight, bias.clone())
    };
    let again = operands.clone();
    Pair {
        name: format!(
            "{inputs} -> {outputs}{}",
            if across { ", transposed" } else { "" }
        ),
        shape: [BATCH, SEQ, inputs],
        ours: Box::new(move |x| {
            let (weight, bias) = operands();
            linear(x, weight, bias)
        }),
        burns: Box::new(move |x| {
            let (weight, bias) = again();
            module::linear(x, weight, bias)
        }),
        random: false,
        parameters,
    }
}
