//! What a stage does where its ranks meet: hands over its parts, recomputes, and takes the sums.
//!
//! Like a wait for a message, piece of work by piece of work, looking in between whether the sum is
//! there. In a backward the work is that backward's own first: what it will need next.

use std::time::Instant;

use super::position::Position;
use super::tell::Teller;
use super::window::rebuild;
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::{self, Collective, CollectiveError, Parts};
use crate::runtime::stage::{Found, Ranks, Stage, StageError, Sum, SumPass, Upcoming};

/// A stage's rank in a forward or backward.
pub(super) struct Meeting<'a> {
    pub(super) group: &'a mut dyn Collective,
    pub(super) position: &'a Position,
    pub(super) teller: &'a mut Teller,
    /// Whether the pass is a backward of the cool-down.
    pub(super) cool_down: bool,
    /// The next backward after this pass.
    pub(super) next: Option<Upcoming>,
}

impl From<CollectiveError> for StageError {
    fn from(error: CollectiveError) -> Self {
        match error {
            CollectiveError::Gone => Self::RankEnded,
            CollectiveError::Mismatch { expected, found } => Self::SumsDiffer { expected, found },
        }
    }
}

impl<C: Chain> Ranks<C> for Meeting<'_> {
    fn sum(&mut self, stage: &mut Stage<C>, sum: Sum, parts: Parts) -> Result<Parts, StageError> {
        let bytes = collective::bytes(&parts);
        let begin = Instant::now();
        let (position, own, next) = (self.position, self.own(sum), self.next.as_ref());
        let (sums, way) = super::sum::sum(parts, self.group, position, || {
            let Some(found) = find(stage, sum, &own, next) else {
                return Ok(false);
            };
            rebuild(stage, position, found)?;
            Ok::<bool, StageError>(true)
        })?;
        self.teller.sum(sum, bytes, (begin, way), stage);
        Ok(sums)
    }
}

impl Meeting<'_> {
    /// The rest of the pass whose sum is waited for.
    fn own(&self, sum: Sum) -> Upcoming {
        Upcoming {
            micro_batch: sum.micro_batch,
            cool_down: self.cool_down,
            forwards: 0,
            behind: Some(sum.behind),
        }
    }
}

/// What may be recomputed now, if anything.
fn find<C: Chain>(
    stage: &Stage<C>,
    sum: Sum,
    own: &Upcoming,
    next: Option<&Upcoming>,
) -> Option<Found> {
    if !stage.works_ahead() {
        return None;
    }
    match sum.pass {
        SumPass::Repeated => None,
        SumPass::Backward if stage.has_to_recompute(sum.micro_batch) => stage.find_ahead(own),
        SumPass::Forward | SumPass::Backward => stage.find_ahead(next?),
    }
}
