//! What the kernels move and compute.

/// Sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossEntropyProblem {
    /// Rows of logits: tokens.
    pub rows: usize,
    /// Classes.
    pub vocabulary: usize,
    /// Bytes of a logit.
    pub element: usize,
}

impl CrossEntropyProblem {
    /// Bytes that a forward must move: logits and targets in, losses and log-sum-exps out.
    #[must_use]
    pub const fn forward_bytes(&self) -> usize {
        self.rows * (self.vocabulary * self.element + 12)
    }

    /// Bytes that a backward must move: logits in and their gradients out, three numbers a row.
    #[must_use]
    pub const fn backward_bytes(&self) -> usize {
        self.rows * (2 * self.vocabulary * self.element + 12)
    }

    /// How many rows of logits fit into `bytes`; at least one.
    #[must_use]
    pub const fn rows_within(&self, bytes: usize) -> usize {
        match bytes.checked_div(self.vocabulary * self.element) {
            None | Some(0) => 1,
            Some(rows) => rows,
        }
    }
}
