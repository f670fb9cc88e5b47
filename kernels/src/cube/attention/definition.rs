//! What the kernels move and compute.

/// Sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionProblem {
    /// Sequences.
    pub batch: usize,
    /// Heads of each.
    pub heads: usize,
    /// Positions.
    pub seq: usize,
    /// Numbers a head has for a position.
    pub head_dim: usize,
    /// Bytes of an element.
    pub element: usize,
}

impl AttentionProblem {
    const fn matrix(&self) -> usize {
        self.batch * self.heads * self.seq * self.head_dim * self.element
    }

    const fn statistics(&self) -> usize {
        self.batch * self.heads * self.seq * 4
    }

    /// Bytes that outlive a forward besides its operands: output and log-sum-exp. Linear in `seq`.
    #[must_use]
    pub const fn saved_bytes(&self) -> usize {
        self.matrix() + self.statistics()
    }

    /// Bytes that a forward must move: three operands in, output and log-sum-exp out.
    #[must_use]
    pub const fn forward_bytes(&self) -> usize {
        4 * self.matrix() + self.statistics()
    }

    /// Bytes that a backward must move: operands, output, its gradient and log-sum-exp in, three
    /// gradients out.
    #[must_use]
    pub const fn backward_bytes(&self) -> usize {
        8 * self.matrix() + self.statistics()
    }

    /// Operations of a forward: two products over the lower triangle.
    #[must_use]
    pub const fn forward_flops(&self) -> usize {
        2 * self.product_flops()
    }

    /// Operations of a backward: scores and their gradients twice, and three products of gradients.
    #[must_use]
    pub const fn backward_flops(&self) -> usize {
        7 * self.product_flops()
    }

    const fn product_flops(&self) -> usize {
        self.batch * self.heads * self.seq * (self.seq + 1) * self.head_dim
    }
}
