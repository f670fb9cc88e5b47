//! Recomputing before a backward needs it, while the stage has nothing else to do: before the
//! backward begins, or in the middle of it, while its ranks sum a gradient.
//!
//! Only one backward at a time is worked for: the one under way as long as it has something to
//! recompute, then the next in the stage's list, and only once its own forward is over. Its runs
//! are rebuilt from the last to the first, the order in which the backward will need them, so that
//! what stands longest is needed last.
//!
//! Under a budget, a run is rebuilt early only if the stage stays within the budget with it *and*
//! with all that forwards before the backward will add, the one under way included. In the backward
//! itself, what was rebuilt early is used up before anything is rebuilt on demand: so the peak is
//! within the budget, or it is the one that recomputation on demand has anyway. The run that a
//! backward under way needs next is rebuilt without asking: on demand it would be a moment later,
//! beside the same bytes. Of any other, a run whose size is unknown is left to its backward, which
//! tells it: a budget that may be broken once is none.

use std::ops::Range;

use super::flight::{Flight, Held};
use super::ranks::Alone;
use super::{Stage, StageError};
use crate::ids::{MicroBatchId, SegmentId};
use crate::plan::advance::Advance;
use crate::runtime::chain::Chain;
use crate::runtime::streams::SideStream;
use crate::units::Bytes;

/// What a stage may recompute while it waits.
#[derive(Clone, Debug, Default)]
pub(crate) enum Ahead {
    /// Nothing.
    #[default]
    Never,
    /// What a plan allows, for each of the stage's segments.
    Planned(Vec<Advance>),
    /// Anything, as long as the stage retains no more than this; without a budget, anything.
    Opportunistic(Option<Bytes>),
}

/// The next backward in a stage's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upcoming {
    pub(crate) micro_batch: MicroBatchId,
    /// Whether it is one of the cool-down.
    pub(crate) cool_down: bool,
    /// How many forwards come before it.
    pub(crate) forwards: usize,
    /// Where it has begun already: the segment whose gradient the ranks are summing.
    pub(crate) behind: Option<usize>,
}

/// Where work for a backward is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    micro_batch: MicroBatchId,
    /// The run's, in the flight.
    place: usize,
    /// How many of its pieces may be recomputed.
    pieces: usize,
}

/// What to do about one run.
enum Verdict {
    /// So many of its pieces.
    Rebuild(usize),
    PassOver,
    Stop,
}

impl<C: Chain> Stage<C> {
    /// Whether anything may be done ahead at all.
    pub(crate) fn works_ahead(&self) -> bool {
        !matches!(self.ahead, Ahead::Never)
    }

    /// Recomputes what [`find_ahead`](Self::find_ahead) has found.
    pub(crate) fn recompute_ahead(&mut self, found: Found) -> Result<(), StageError> {
        let micro_batch = found.micro_batch;
        let nothing = StageError::NothingKept { micro_batch };
        let flight = self.flights.remove(&micro_batch);
        let mut flight = flight.ok_or_else(|| nothing.clone())?;
        let skipped = flight.take_skipped(found.place).ok_or(nothing)?;
        let work = (skipped, found.pieces);
        let stream = self.side.as_ref().map(SideStream::fork);
        // What ranks must do together is not done ahead.
        let (size, target) = (flight.size(), flight.target());
        let rebuild = || self.rebuild(micro_batch, size, work, target, &mut Alone);
        let rebuilt = match stream {
            Some(stream) => stream.executes(rebuild),
            None => rebuild(),
        };
        if let Some(side) = &mut self.side {
            side.close();
        }
        let rebuilt = rebuilt?;
        flight.put_rebuilt(found.place, rebuilt);
        self.flights.insert(micro_batch, flight);
        Ok(())
    }

    /// Whether a micro-batch's backward still has something to recompute.
    pub(crate) fn has_to_recompute(&self, micro_batch: MicroBatchId) -> bool {
        let flight = self.flights.get(&micro_batch);
        let mut held = flight.into_iter().flat_map(Flight::last_to_first);
        held.any(|(_, held)| matches!(held, Held::Input(_)))
    }

    /// What to recompute next; nothing if there is nothing that may be.
    pub(crate) fn find_ahead(&self, next: &Upcoming) -> Option<Found> {
        let flight = self.flights.get(&next.micro_batch)?;
        // In a backward under way, what comes next is made now or a little later in any case.
        let mut due = next.behind.is_some();
        for (place, held) in flight.last_to_first() {
            match held {
                Held::Tape { .. } | Held::Rebuilt { .. } => due = false,
                Held::Nothing => return None,
                Held::Input(skipped) => match self.judge(next, (flight, due), &skipped.group) {
                    Verdict::Rebuild(pieces) => {
                        return Some(Found {
                            micro_batch: next.micro_batch,
                            place,
                            pieces,
                        });
                    }
                    Verdict::PassOver => {}
                    Verdict::Stop => return None,
                },
            }
        }
        None
    }

    fn judge(
        &self,
        next: &Upcoming,
        (flight, due): (&Flight<C>, bool),
        group: &Range<usize>,
    ) -> Verdict {
        if self.repeats_sums(group) {
            return Verdict::Stop;
        }
        match &self.ahead {
            Ahead::Never => Verdict::Stop,
            Ahead::Planned(allowed) => {
                let may = |segment: usize| {
                    let allowed = allowed.get(segment - self.first);
                    let behind = next.behind.map(SegmentId);
                    allowed.is_some_and(|allowed| allowed.allows(next.cool_down, behind))
                };
                // One piece makes the next one's input, so what may be done is a beginning.
                let pieces = group.clone();
                let pieces =
                    pieces.take_while(|piece| self.segments_of(&(*piece..piece + 1)).all(may));
                match pieces.count() {
                    0 => Verdict::PassOver,
                    pieces => Verdict::Rebuild(pieces),
                }
            }
            Ahead::Opportunistic(_) if due => Verdict::Rebuild(group.len()),
            Ahead::Opportunistic(None) => Verdict::Rebuild(group.len()),
            Ahead::Opportunistic(Some(budget)) => {
                let size = self.sizes.get(&(group.start, flight.size()));
                let forwards = i64::try_from(next.forwards).unwrap_or(i64::MAX);
                let growth = self.forward_growth.0.max(self.forward_growth.1);
                let growth = growth.saturating_mul(forwards);
                let budget = i64::try_from(budget.0).unwrap_or(i64::MAX);
                let fits = |size: i64| {
                    let then = self.ledger.current().0 as i64;
                    then.saturating_add(size).saturating_add(growth) <= budget
                };
                // Were a smaller one before it rebuilt instead, it would stand while this one is
                // rebuilt on demand.
                match size {
                    Some(&size) if fits(size) => Verdict::Rebuild(group.len()),
                    _ => Verdict::Stop,
                }
            }
        }
    }
}
