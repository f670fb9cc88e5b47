//! The product with a weight in `f64`, by its definition.

use super::Linear;

/// `y`, of a weight `[inputs, outputs]`.
#[must_use]
pub fn forward(shape: Linear, x: &[f64], w: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let (inputs, outputs) = (shape.inputs(), shape.outputs());
    each(shape.rows(), outputs, |row, output| {
        let products = (0..inputs).map(|i| x[row * inputs + i] * w[i * outputs + output]);
        products.sum::<f64>() + bias.map_or(0.0, |bias| bias[output])
    })
}

/// `dx`.
#[must_use]
pub fn input_gradient(shape: Linear, w: &[f64], dy: &[f64]) -> Vec<f64> {
    let (inputs, outputs) = (shape.inputs(), shape.outputs());
    each(shape.rows(), inputs, |row, i| {
        (0..outputs)
            .map(|o| dy[row * outputs + o] * w[i * outputs + o])
            .sum()
    })
}

/// `dw`.
#[must_use]
pub fn weight_gradient(shape: Linear, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let (inputs, outputs) = (shape.inputs(), shape.outputs());
    each(inputs, outputs, |i, o| {
        (0..shape.rows())
            .map(|row| x[row * inputs + i] * dy[row * outputs + o])
            .sum()
    })
}

/// `dbias`.
#[must_use]
pub fn bias_gradient(shape: Linear, dy: &[f64]) -> Vec<f64> {
    let outputs = shape.outputs();
    each(1, outputs, |_, o| {
        (0..shape.rows()).map(|row| dy[row * outputs + o]).sum()
    })
}

fn each(rows: usize, columns: usize, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..rows * columns)
        .map(|index| value(index / columns, index % columns))
        .collect()
}
