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
use crate::runtime::comm::link::Way;
use crate::runtime::stage::{Ranks, Stage, StageError, Sum, SumPass, Upcoming};

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
        let place = self.position.place();
        let begin = Instant::now();
        self.group.start(parts)?;
        self.position.waits();
        let way = self.meet(stage, sum)?;
        let sums = self.group.take()?;
        self.teller.sum(sum, bytes, (begin, way), stage);
        self.position.resumes(place);
        Ok(sums)
    }
}

impl Meeting<'_> {
    /// Until the sum is there.
    fn meet<C: Chain>(&mut self, stage: &mut Stage<C>, sum: Sum) -> Result<Way, StageError> {
        loop {
            match self.group.poll()? {
                Some(way) if way.arrive <= Instant::now() => return Ok(way),
                Some(way) => {
                    if !self.recompute(stage, sum)? {
                        // It cannot be late before that: nobody is stuck until then.
                        self.position.expects(way.arrive);
                        self.group.wait(Some(way.arrive))?;
                        self.position.waits();
                    }
                }
                None => {
                    if !self.recompute(stage, sum)? {
                        self.group.wait(None)?;
                    }
                }
            }
        }
    }

    /// Recomputes something; `false` if there is nothing that may be.
    fn recompute<C: Chain>(&self, stage: &mut Stage<C>, sum: Sum) -> Result<bool, StageError> {
        if !stage.works_ahead() {
            return Ok(false);
        }
        let own = Upcoming {
            micro_batch: sum.micro_batch,
            cool_down: self.cool_down,
            forwards: 0,
            behind: Some(sum.behind),
        };
        let next = |stage: &Stage<C>| stage.find_ahead(self.next.as_ref()?);
        let found = match sum.pass {
            SumPass::Repeated => None,
            SumPass::Forward => next(stage),
            SumPass::Backward if stage.has_to_recompute(sum.micro_batch) => stage.find_ahead(&own),
            SumPass::Backward => next(stage),
        };
        let Some(found) = found else {
            return Ok(false);
        };
        rebuild(stage, self.position, found)?;
        Ok(true)
    }
}
