//! What handing over to a sum costs the ranks themselves.
//!
//! The time on the way is the cluster's to tell. But where ranks are threads of one process, each
//! copies its part and adds up all of them, before and after that way, on its own time: a forward
//! or backward is longer by so much.

use std::time::Instant;

use super::MeasureError;
use super::subject::Subject;
use crate::runtime::boundary::Boundary;
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::{Collective, CollectiveError, Parts};
use crate::runtime::comm::group::group;
use crate::runtime::exec::error::Cause;
use crate::runtime::stage::{StageError, TakeParts};
use crate::units::Nanos;

/// What one rank does for the sum behind a segment with this output; nothing where none is.
pub(super) fn handling<C: Chain, B: Boundary>(
    subject: &Subject<C>,
    output: &B,
) -> Result<Nanos, MeasureError> {
    let ranks = subject.share.1;
    let mut taken = TakeParts::default();
    let _ = output.clone().map_tensors(&mut taken);
    if ranks == 1 || taken.0.is_empty() || devices_sum(subject) {
        return Ok(Nanos::ZERO);
    }
    let time = one_sum(taken.0, ranks);
    time.map_err(|error| subject.failed(Cause::Stage(StageError::from(error))))
}

/// All ranks' parts are alike; the last one to come is timed, which need not wait.
fn one_sum(parts: Parts, ranks: usize) -> Result<Nanos, CollectiveError> {
    let (_stop, never) = crossbeam_channel::bounded(0);
    let mut members = group(ranks, &never);
    for member in &mut members[1..] {
        member.start(parts.clone())?;
    }
    let begin = Instant::now();
    members[0].start(parts)?;
    let sums = members[0].take()?;
    let time = Nanos::from(begin.elapsed());
    drop(sums);
    Ok(time)
}

#[cfg(feature = "cuda")]
fn devices_sum<C: Chain>(subject: &Subject<C>) -> bool {
    crate::runtime::comm::device_group::cuda_index(&subject.device).is_some()
}

#[cfg(not(feature = "cuda"))]
fn devices_sum<C: Chain>(_: &Subject<C>) -> bool {
    false
}
