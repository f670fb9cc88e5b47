//! How long segments take.
//!
//! Rounds, not one segment after the other: a clock rate that falls or a neighbour that wakes up
//! then hits all segments, and their ratios, which a plan depends on, stay.

use std::time::Instant;

use super::probe::{Probe, Times};
use super::subject::Subject;
use super::{MeasureError, MeasureOptions, sums};
use crate::runtime::boundary::Signature;
use crate::runtime::chain::Chain;
use crate::runtime::exec::error::Cause;
use crate::runtime::exec::position::Pass;
use crate::runtime::gradient::ones;
use crate::runtime::ops::notes;
use crate::runtime::stage::StageError;
use crate::units::Nanos;

/// Runs all probes as often as the options say.
pub(super) fn rounds<C: Chain>(
    subject: &Subject<C>,
    probes: &mut [Probe<C>],
    options: &MeasureOptions,
) -> Result<(), MeasureError> {
    for round in 0..options.warm_up + options.repeats {
        if round == options.warm_up {
            for probe in probes.iter_mut() {
                probe.times = Times::default();
            }
        }
        // Two passes: right behind its own forward a segment would find all it reads in caches,
        // as it does in no step.
        for probe in probes.iter_mut() {
            forward(subject, probe)?;
        }
        for probe in probes.iter_mut().filter(|probe| probe.learns) {
            there_and_back(subject, probe)?;
        }
    }
    Ok(())
}

/// The forward of a retained segment.
fn forward<C: Chain>(subject: &Subject<C>, probe: &mut Probe<C>) -> Result<(), MeasureError> {
    if !probe.learns {
        let (time, _) = timed(subject, || probe.untracked(subject))?;
        probe.times.forward.push(time);
        return Ok(());
    }
    let input = probe.input.clone();
    let (time, (made, notes)) = timed(subject, || {
        notes::write(|| probe.tracked(subject, Pass::Forward, input))
    })?;
    probe.times.forward.push(time);
    probe.notes = notes;
    probe.output = Signature::of(&made.1);
    let handling = sums::handling(subject, &made.1)?;
    probe.times.handling.push(handling);
    Ok(())
}

/// The forward that makes a tape anew, and the backward over that tape.
fn there_and_back<C: Chain>(
    subject: &Subject<C>,
    probe: &mut Probe<C>,
) -> Result<(), MeasureError> {
    let input = probe.input.clone();
    let notes = std::mem::take(&mut probe.notes);
    let (time, made) = timed(subject, || {
        notes::read(notes, || probe.tracked(subject, Pass::Recompute, input))
    })?;
    probe.times.recompute.push(time);
    let (tape, output) = made;
    let found = Signature::of(&output);
    if found != probe.output {
        return Err(subject.failed(Cause::Stage(StageError::RecomputeDiffers {
            expected: probe.output.dims.clone(),
            found: found.dims,
        })));
    }
    let gradients = ones(&output);
    drop(output);
    let (time, pulled) = timed(subject, || probe.backward(subject, tape, gradients))?;
    probe.times.backward.push(time);
    pulled.map(drop)
}

/// The time from an idle device to an idle device.
fn timed<C: Chain, R>(
    subject: &Subject<C>,
    work: impl FnOnce() -> R,
) -> Result<(Nanos, R), MeasureError> {
    subject.settle()?;
    let begin = Instant::now();
    let result = work();
    subject.settle()?;
    let time = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok((Nanos(time), result))
}
