//! What the kernels move and compute.

/// Sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropoutAddProblem {
    /// Rows of `input`: the product of all dimensions but the last.
    pub rows: usize,
    /// Its last dimension.
    pub width: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Whether a residual is added.
    pub residual: bool,
    /// Whether a bias is added.
    pub bias: bool,
}

impl DropoutAddProblem {
    const fn elements(&self) -> usize {
        self.rows * self.width
    }

    /// Bytes that a forward, or a recomputation, must move: input, residual and bias in, output out.
    #[must_use]
    pub const fn forward_bytes(&self) -> usize {
        let matrices = if self.residual { 3 } else { 2 };
        let bias = if self.bias { self.width } else { 0 };
        (matrices * self.elements() + bias) * self.element
    }

    /// Bytes that a backward must move: the gradient in, the input's (and the bias') out.
    #[must_use]
    pub const fn backward_bytes(&self) -> usize {
        let bias = if self.bias { self.width } else { 0 };
        (2 * self.elements() + bias) * self.element
    }

    /// Integer operations for the mask: ten rounds of two multiplications (low and high word) and
    /// six others, per block of four elements.
    #[must_use]
    pub const fn mask_operations(&self) -> usize {
        self.elements().div_ceil(4) * 10 * 10
    }
}
