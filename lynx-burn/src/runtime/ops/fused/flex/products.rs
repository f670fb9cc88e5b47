//! Products with a weight.

use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::Shape;
use lynx_kernels::linear::{self, Stored};

use super::super::Optional;
use super::super::shapes::rows;
use super::tensors::{Input, buffer, fitting, tensor};

/// `x weight + bias`.
pub(super) fn linear(x: FlexTensor, weight: FlexTensor, bias: Optional<Flex>) -> FlexTensor {
    let (rows, inputs) = rows::<Flex>(&x);
    let outputs = weight.shape()[1];
    let sizes = fitting(linear::Linear::new(rows, inputs, outputs));
    let shape = with_last(&x.shape(), outputs);
    let (x, bias) = (Input::new(x), Input::optional(bias));
    let (weight, stored) = as_stored(weight);
    let mut y = buffer(rows * outputs);
    fitting(linear::forward(
        sizes,
        x.read(),
        weight.read(),
        stored,
        bias.as_ref().map(Input::read),
        &mut y,
    ));
    tensor(y, shape)
}

/// The gradient of `x`.
pub(super) fn input_gradient(weight: FlexTensor, gradient: FlexTensor) -> FlexTensor {
    let (rows, outputs) = rows::<Flex>(&gradient);
    let inputs = weight.shape()[0];
    let sizes = fitting(linear::Linear::new(rows, inputs, outputs));
    let shape = with_last(&gradient.shape(), inputs);
    let ((weight, stored), gradient) = (as_stored(weight), Input::new(gradient));
    let mut dx = buffer(rows * inputs);
    let (weight, gradient) = (weight.read(), gradient.read());
    fitting(linear::input_gradient(
        sizes, weight, stored, gradient, &mut dx,
    ));
    tensor(dx, shape)
}

/// The gradient of the weight.
pub(super) fn weight_gradient(x: FlexTensor, gradient: FlexTensor) -> FlexTensor {
    let ((rows, inputs), (_, outputs)) = (rows::<Flex>(&x), rows::<Flex>(&gradient));
    let sizes = fitting(linear::Linear::new(rows, inputs, outputs));
    let (x, gradient) = (Input::new(x), Input::new(gradient));
    let mut dw = buffer(inputs * outputs);
    let (x, gradient) = (x.read(), gradient.read());
    fitting(linear::weight_gradient(sizes, x, gradient, &mut dw));
    tensor(dw, Shape::from(vec![inputs, outputs]))
}

/// The gradient of the bias.
pub(super) fn bias_gradient(gradient: FlexTensor) -> FlexTensor {
    let (rows, outputs) = rows::<Flex>(&gradient);
    // It does not depend on the input, whatever its width.
    let sizes = fitting(linear::Linear::new(rows, 1, outputs));
    let mut dbias = buffer(outputs);
    let gradient = Input::new(gradient);
    fitting(linear::bias_gradient(sizes, gradient.read(), &mut dbias));
    tensor(dbias, Shape::from(vec![outputs]))
}

/// The shape with another last axis.
fn with_last(shape: &Shape, width: usize) -> Shape {
    let mut dimensions = shape.to_vec();
    if let Some(last) = dimensions.last_mut() {
        *last = width;
    }
    Shape::from(dimensions)
}

/// A weight as it lies in memory: one that is another's transpose is read where it is.
fn as_stored(weight: FlexTensor) -> (Input, Stored) {
    let turned = weight.transpose(0, 1);
    match !weight.is_contiguous() && turned.is_contiguous() {
        true => (Input::new(turned), Stored::ByOutput),
        false => (Input::new(weight), Stored::ByInput),
    }
}
