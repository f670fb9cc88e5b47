//! Training of [Burn](https://burn.dev) models under a memory budget: segments whose activations
//! are kept or recomputed, stages in a pipeline, and gradients that stay plain Burn's.
//!
//! Three types carry it:
//!
//! - [`Chain`] is a Burn module that says where it can be cut. It names its segments, runs one, and
//!   can drop the parameters of those it is not asked to keep. What passes between segments is a
//!   [`Boundary`];
//! - [`TrainerBuilder`] collects what is decided outside the model: how the chain is cut into
//!   stages, a [policy](plan::policy::Policy) that says which segments are recomputed, the
//!   [schedule](plan::schedule::Kind), devices, seeds;
//! - [`Trainer`] runs steps of [`MicroBatch`]es, one thread a stage, and reports losses, bytes
//!   retained and segments recomputed. Several [ranks](TrainerBuilder::ranks) may share each stage,
//!   and several [replicas](TrainerBuilder::replicas) of all of it the micro-batches of a step.
//!
//! The crate has two layers. [`plan`] is decisions as data, and what makes and judges them, without
//! tensors or threads; it builds alone with `default-features = false`. The runtime, everything else, obeys such data. Backends
//! are features (`flex`, `wgpu`, `cuda`, `remote`), and none is a default.
//!
//! After the idea of Lynx (arXiv 2406.08756). [`plan::planner`] chooses what to recompute and where,
//! and [`plan::sim`] times it; the runtime recomputes while a stage waits for a neighbour
//! ([`Overlap`]), and a [`Recorder`] shows it.
//!
//! [`Trainer::save_to`] and [`Trainer::resume_from`] keep a run from being lost. With the feature
//! `train`, the module `learner` puts a trainer under Burn's own `Learner`: its metrics, dashboard, early
//! stopping and checkpoints. `examples/` has models of one's own in all of these ways.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod ids;
pub mod plan;
#[cfg(feature = "runtime")]
mod runtime;
pub mod units;

#[cfg(feature = "runtime")]
pub use runtime::boundary::{Boundary, Constant, Summed, TensorMap};
#[cfg(feature = "runtime")]
pub use runtime::chain::{Chain, Context, Mode};
#[cfg(feature = "runtime")]
pub use runtime::comm::speed::{LinkSpeed, ParseLinkSpeedError};
#[cfg(feature = "runtime")]
pub use runtime::exec::error::{Cause, StageFailure};
#[cfg(feature = "runtime")]
pub use runtime::exec::observer::{
    ActionSpan, MessageSpan, Observer, RecomputeSpan, RunStart, SumSpan, WaitSpan,
};
#[cfg(feature = "runtime")]
pub use runtime::exec::position::{Pass, Place};
#[cfg(feature = "train")]
pub use runtime::learner;
#[cfg(feature = "runtime")]
pub use runtime::recorder::{Recorded, Recorder};
#[cfg(feature = "runtime")]
pub use runtime::save::{LoadError, Save, SaveError, Saves};
#[cfg(feature = "runtime")]
pub use runtime::shard::{Sharding, ShardingError};
#[cfg(feature = "runtime")]
pub use runtime::stage::{StageError, StageReport, StageTimes};
#[cfg(feature = "runtime")]
pub use runtime::tape::GradientMismatch;
#[cfg(feature = "runtime")]
pub use runtime::trainer::{
    BackwardReport, BuildError, MicroBatch, NonFinite, Overlap, Rehearsal, Rehearsed, ReplanError,
    Split, StepReport, TrainError, Trainer, TrainerBuilder, UpdateReport,
};
#[cfg(feature = "runtime")]
pub use runtime::{measure, memory, nn, ops};

/// Counter-based random numbers, for chance that comes out the same again.
#[cfg(feature = "runtime")]
pub use lynx_kernels as kernels;

/// The README's examples are compiled and run as tests of documentation.
#[cfg(all(doctest, feature = "runtime"))]
#[doc = include_str!("../../README.md")]
struct Readme;
