//! Pipeline training for Burn under a memory budget.
#![warn(missing_docs)]

pub mod ids;
pub mod plan;
#[cfg(feature = "runtime")]
mod runtime;
pub mod units;

#[cfg(feature = "runtime")]
pub use runtime::boundary::{Boundary, Constant, TensorMap};
#[cfg(feature = "runtime")]
pub use runtime::chain::{Chain, Context, Mode};
#[cfg(feature = "runtime")]
pub use runtime::exec::error::{Cause, StageFailure};
#[cfg(feature = "runtime")]
pub use runtime::exec::observer::{ActionSpan, Observer};
#[cfg(feature = "runtime")]
pub use runtime::exec::position::{Pass, Place};
#[cfg(feature = "runtime")]
pub use runtime::stage::{StageError, StageReport};
#[cfg(feature = "runtime")]
pub use runtime::tape::GradientMismatch;
#[cfg(feature = "runtime")]
pub use runtime::trainer::{
    BackwardReport, BuildError, MicroBatch, NonFinite, Split, StepReport, TrainError, Trainer,
    TrainerBuilder, UpdateReport,
};
#[cfg(feature = "runtime")]
pub use runtime::{memory, nn, ops};
