//! What a chain costs on the device it runs on, measured.
//!
//! A planner knows a model only by its [`ModelProfile`]. Formulas give one for GPTs; for any other
//! chain, and for a device whose kernels nobody has modelled, [`measure`] runs the segments and
//! reads the clock and the memory:
//!
//! - layers that are *alike* are measured once (`kinds`);
//! - times are medians over rounds that visit every segment in turn, so that a machine that warms
//!   up or is shared slows all of them alike (`times`);
//! - bytes are differences between what a stage holds under one policy and under another, so that
//!   a tensor on two tapes is not counted twice (`bytes`);
//! - what is needed for a moment is the allocator's peak (`workspace`).
//!
//! What runs is the runtime's own: the pieces, tapes and stages of a trainer. The figures are for
//! one device, one size of micro-batch, and one rank. Of several ranks the first is run, alone; the
//! profile says what would be summed where. Nothing here plans.
//!
//! Two things that a micro-batch occupies are nobody's: the target on the last stage, and what
//! lies in mailboxes.

mod bytes;
mod error;
mod kinds;
mod options;
mod probe;
mod profile;
mod report;
mod spread;
mod subject;
mod sums;
mod table;
mod times;
mod weights;
mod workspace;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use burn::prelude::*;

pub use error::{MeasureError, SegmentFailure};
pub use options::MeasureOptions;
pub use report::{BytesFrom, Measured, MeasuredSegment};
pub use spread::Spread;

use self::bytes::RangeBytes;
use self::kinds::Deal;
use self::probe::Probe;
use self::subject::Subject;
use super::chain::Chain;
use super::exec::crew::message;
use super::exec::error::Cause;
use super::exec::position::Position;
use super::ops;
#[cfg(doc)]
use crate::plan::profile::ModelProfile;

/// Runs every kind of segment of `model` on `device` and says what it costs.
///
/// `input` and `target` are one micro-batch of the size that will be trained with; their tensors
/// may be on any device. Segments before the first layer become the profile's embedding, those
/// after the last its head. The loss belongs to the last segment; a chain whose last segment is in
/// a layer therefore has a last layer that is like no other, so keep the head outside layers.
///
/// Only parameters of the segments under measurement are on the device, never the whole model, if
/// Burn has not created them before. The calling thread does the work, and on a CPU the
/// [allocator's peak](crate::memory::peak_bytes) begins anew.
///
/// # Errors
///
/// If the chain has no profile (segments between layers, nothing to learn), a segment fails, or
/// the device does. A panic in the model is an error too.
pub fn measure<C: Chain>(
    model: C,
    input: C::Boundary,
    target: C::Target,
    device: &Device,
    options: &MeasureOptions,
) -> Result<Measured, MeasureError> {
    options.validate()?;
    let position = Arc::new(Position::new());
    let layout = crate::plan::layout::ChainLayout::new(model.segments())?;
    let layout = match options.ranks {
        1 => layout.without_collectives(),
        _ => layout,
    };
    let share = (device, options.ranks);
    let subject = Subject::new(model, layout, (input, target), share, position.clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&subject, options)));
    outcome.unwrap_or_else(|panic| {
        // Tapes that were dropped while the panic unwound wait for the next backward.
        let _ = catch_unwind(AssertUnwindSafe(|| ops::sweep(device)));
        Err(subject.failed(Cause::Panic(message(panic.as_ref()))))
    })
}

fn run<C: Chain>(subject: &Subject<C>, options: &MeasureOptions) -> Result<Measured, MeasureError> {
    subject.check_ranks()?;
    let facts = subject.survey()?;
    let deal = Deal::new(&subject.layout, &facts, options.every_layer)?;
    let first_trainable = deal.first_trainable;
    let inputs = subject.inputs(&deal.measured_segments())?;
    let mut probes: Vec<Probe<C>> = inputs
        .into_iter()
        .map(|(segment, input)| Probe::new(subject, segment, input, first_trainable))
        .collect();
    times::rounds(subject, &mut probes, options)?;
    let mut workspaces = Vec::with_capacity(probes.len());
    for probe in &mut probes {
        workspaces.push(workspace::of(subject, probe)?);
    }
    let mut bytes: Vec<RangeBytes> = Vec::new();
    for range in deal.measured_ranges() {
        let input = probes.iter().find(|probe| probe.segment == range.start);
        if let Some(input) = input.map(|probe| &probe.input) {
            bytes.push(bytes::of(subject, range, input, first_trainable)?);
        }
    }
    let profile = profile::Parts {
        deal: &deal,
        facts: &facts,
        probes: &probes,
        workspaces: &workspaces,
        bytes: &bytes,
        options,
    };
    profile.assemble(BytesFrom::of(&subject.device))
}

#[cfg(all(test, feature = "flex"))]
mod tests;
