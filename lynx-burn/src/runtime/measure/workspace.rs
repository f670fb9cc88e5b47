//! What a segment needs for a moment beside what stays.
//!
//! The allocator's peak during a forward and during a backward, less what is held afterwards and
//! before. It contains the input and output on their way, temporaries, and the gradients that come
//! and go. Other threads of the program that allocate at that moment would be counted too, so the
//! least of a few tries stands.

use super::MeasureError;
use super::probe::Probe;
use super::subject::Subject;
use crate::runtime::chain::Chain;
use crate::runtime::exec::position::Pass;
use crate::runtime::gradient::ones;
use crate::runtime::memory::{self, Meter};
use crate::units::Bytes;

const TRIES: usize = 3;

/// Of one segment, warmed up; `None` where no peak can be read.
pub(super) fn of<C: Chain>(
    subject: &Subject<C>,
    probe: &mut Probe<C>,
) -> Result<Option<Bytes>, MeasureError> {
    if !matches!(Meter::of(&subject.device), Meter::Thread) {
        return Ok(None);
    }
    let mut least = u64::MAX;
    for _ in 0..TRIES {
        least = least.min(once(subject, probe)?);
    }
    Ok(Some(Bytes(least)))
}

fn once<C: Chain>(subject: &Subject<C>, probe: &mut Probe<C>) -> Result<u64, MeasureError> {
    let before = memory::live_bytes();
    let input = probe.input.clone().with_own_storage();
    memory::reset_peak();
    // A stage holds the input until the segment is done.
    let held = input.clone();
    if !probe.learns {
        let output = probe.untracked(subject);
        drop((held, output));
        return Ok(memory::peak_bytes().saturating_sub(before));
    }
    let (tape, output) = probe.tracked(subject, Pass::Forward, input);
    let forward = memory::peak_bytes().saturating_sub(before);
    let with_output = memory::live_bytes();
    let gradients = ones(&output);
    let incoming = memory::live_bytes().saturating_sub(with_output);
    drop((held, output));
    let stays = memory::live_bytes().saturating_sub(before + incoming);
    memory::reset_peak();
    let pulled = probe.backward(subject, tape, gradients)?;
    drop(pulled);
    let backward = memory::peak_bytes().saturating_sub(before);
    // A recomputed forward has the gradient waiting beside it.
    Ok((forward + incoming).max(backward).saturating_sub(stays))
}
