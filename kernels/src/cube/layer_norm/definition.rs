//! What the kernels move and compute.

/// Sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerNormProblem {
    /// Rows: the product of all dimensions but the last.
    pub rows: usize,
    /// The last dimension, which is normalised.
    pub width: usize,
    /// Bytes of an element.
    pub element: usize,
}

/// Mean and reciprocal standard deviation, as `f32`.
const STATISTICS: usize = 8;

impl LayerNormProblem {
    const fn matrix(&self) -> usize {
        self.rows * self.width * self.element
    }

    /// Bytes that a forward must move: input and both parameters in, output and statistics out.
    #[must_use]
    pub const fn forward_bytes(&self) -> usize {
        2 * self.matrix() + 2 * self.width * self.element + STATISTICS * self.rows
    }

    /// Bytes that a recomputation must move: as many, with the statistics in.
    #[must_use]
    pub const fn recompute_bytes(&self) -> usize {
        self.forward_bytes()
    }

    /// Bytes that a backward must move: gradient, input, gamma and statistics in, three gradients
    /// out.
    #[must_use]
    pub const fn backward_bytes(&self) -> usize {
        3 * self.matrix() + 3 * self.width * self.element + STATISTICS * self.rows
    }

    /// Operations of a forward: two for the mean and the sum of squares each, four for the output.
    #[must_use]
    pub const fn forward_flops(&self) -> usize {
        8 * self.rows * self.width
    }

    /// Operations of a recomputation: subtract, scale, multiply, add.
    #[must_use]
    pub const fn recompute_flops(&self) -> usize {
        4 * self.rows * self.width
    }

    /// Operations of a backward.
    #[must_use]
    pub const fn backward_flops(&self) -> usize {
        14 * self.rows * self.width
    }
}
