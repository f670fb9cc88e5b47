//! What a model costs: time and bytes of every segment.
//!
//! A [`ModelProfile`] is all that a planner and a simulator know of a model. It has two sources
//! here: a file ([`ModelProfile::read`]), which may describe any model of any framework, and
//! formulas for GPTs ([`Gpt::profile`]). A third, measuring a chain on its device, belongs to the
//! runtime. A profile is for one device, one micro-batch size and one tensor-parallel degree; it
//! knows nothing of links, stages or schedules.

mod analytic;
mod error;
mod file;
mod model;
mod segment;

pub use analytic::{Attention, Gpt, GptSize, SEGMENTS, SetupError, StatePerParameter, UnknownSize};
pub use error::ProfileError;
pub use model::{LayerRun, ModelProfile};
pub use segment::{LayerKind, SegmentProfile, WeightBytes};

#[cfg(test)]
mod tests;
