//! What meeting for a sum costs the ranks themselves.
//!
//! The time on the way is the cluster's to tell. But where ranks are threads of one process, each
//! copies its part, sleeps until the sum is there, wakes up a little later, and adds up: a forward or
//! backward is longer by so much. It is measured with all ranks, over links on which a sum takes a
//! known time: what it takes beyond that is theirs.

use std::num::NonZeroU64;
use std::time::Instant;

use super::MeasureError;
use super::subject::Subject;
use crate::runtime::boundary::Boundary;
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::{CollectiveError, Parts};
use crate::runtime::comm::group::group;
use crate::runtime::comm::slow_group::SlowGroup;
use crate::runtime::comm::speed::LinkSpeed;
use crate::runtime::exec::error::Cause;
use crate::runtime::exec::position::Position;
use crate::runtime::exec::sum::sum;
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

/// Sums that are timed.
const SUMS: u32 = 12;

/// How long a sum is on its way meanwhile.
const WAY: Nanos = Nanos(1_000_000);

/// The time of a sum on the first rank, beyond that on the way. All ranks' parts are alike.
fn one_sum(parts: Parts, ranks: usize) -> Result<Nanos, CollectiveError> {
    let (_stop, never) = crossbeam_channel::bounded(0);
    // As a ring of so many steps with nothing but latency.
    let speed = LinkSpeed {
        bytes_per_second: NonZeroU64::MAX,
        latency: Nanos(WAY.0 / (2 * (ranks as u64 - 1))),
    };
    let members = group(ranks, &never).into_iter().map(Box::new);
    let members = members.map(|member| SlowGroup::new(member, speed, ranks));
    let began = Instant::now();
    let outcomes: Vec<Result<(), CollectiveError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .map(|mut member| {
                let parts = parts.clone();
                scope.spawn(move || {
                    // Takes part, and does nothing else.
                    let position = Position::new();
                    (0..SUMS).try_for_each(|_| {
                        let sums = sum(parts.clone(), &mut member, &position, || Ok(false));
                        sums.map(drop)
                    })
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    });
    let time = Nanos::from(began.elapsed() / SUMS);
    outcomes.into_iter().collect::<Result<(), _>>()?;
    Ok(time.saturating_sub(WAY))
}

#[cfg(feature = "cuda")]
fn devices_sum<C: Chain>(subject: &Subject<C>) -> bool {
    crate::runtime::comm::device_group::cuda_index(&subject.device).is_some()
}

#[cfg(not(feature = "cuda"))]
fn devices_sum<C: Chain>(_: &Subject<C>) -> bool {
    false
}
