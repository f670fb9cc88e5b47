//! Cross-entropy without a stored softmax.

use burn::config::Config;
use burn::module::Module;
use burn::prelude::*;

use crate::runtime::ops;

/// Configuration of [`CrossEntropyLoss`].
#[derive(Config, Debug)]
pub struct CrossEntropyLossConfig {
    /// Targets that do not count, if any.
    pub pad_tokens: Option<Vec<usize>>,
}

/// The mean of `-log softmax(logits)[target]`.
///
/// What Burn's module computes from logits without weights and smoothing. Backward keeps the logits
/// and one number for each row.
#[derive(Module, Debug)]
pub struct CrossEntropyLoss {
    /// Targets that do not count.
    pub pad_tokens: Option<Vec<usize>>,
}

impl CrossEntropyLossConfig {
    /// The module.
    pub fn init(&self) -> CrossEntropyLoss {
        CrossEntropyLoss {
            pad_tokens: self.pad_tokens.clone(),
        }
    }
}

impl CrossEntropyLoss {
    /// The mean over the rows that count, NaN if none does.
    ///
    /// # Shapes
    ///
    /// - logits: `[rows, classes]`
    /// - targets: `[rows]`
    /// - loss: `[1]`
    ///
    /// # Panics
    ///
    /// If there is not one target for each row, or, on the CPU, one is not a class.
    pub fn forward(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let ([rows, _], [found]) = (logits.dims(), targets.dims());
        assert_eq!(
            rows, found,
            "cross-entropy of {rows} rows: there are {found} targets"
        );
        let padding = self.pad_tokens.iter().flatten();
        let targets = padding.fold(targets, |targets, &token| {
            let padding = targets.clone().equal_scalar(token as i64);
            targets.mask_fill(padding, lynx_kernels::cross_entropy::IGNORED)
        });
        ops::cross_entropy(logits, targets)
    }
}
