//! What the kernels move and compute.

/// Sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiasGeluProblem {
    /// Rows: the product of all dimensions but the last.
    pub rows: usize,
    /// The last dimension.
    pub width: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

impl BiasGeluProblem {
    /// Bytes that a forward, or a recomputation, must move: input and bias in, output out.
    #[must_use]
    pub const fn forward_bytes(&self) -> usize {
        let bias = if self.bias { self.width } else { 0 };
        (2 * self.rows * self.width + bias) * self.element
    }

    /// Bytes that a backward must move: gradient, input and bias in, their gradients out.
    #[must_use]
    pub const fn backward_bytes(&self) -> usize {
        let bias = if self.bias { 2 * self.width } else { 0 };
        (3 * self.rows * self.width + bias) * self.element
    }
}
