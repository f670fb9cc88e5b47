//! One stage: its segments, what its micro-batches keep, and its optimizer.
//!
//! A stage knows nothing of threads and neighbours. It turns a boundary into the next one
//! ([`Stage::forward`]), a gradient into the previous one ([`Stage::backward`]) and the sums of
//! gradients into new parameters ([`Stage::apply`]).

mod ahead;
mod backward;
mod error;
mod flight;
mod forward;
mod piece;
mod ranks;
mod rebuild;
mod reduction;
mod report;
mod restore;
mod update;

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::optim::ModuleOptimizer;
use burn::prelude::*;

pub(crate) use ahead::{Ahead, Found, Upcoming};
pub use error::StageError;
pub(crate) use piece::{Piece, PieceOutput};
pub(crate) use ranks::{Alone, Ranks, Sum, SumPass, SummedPlaces, Sums, TakeParts};
pub(crate) use rebuild::Rebuilding;
pub use report::{StageReport, StageTimes};
#[cfg(feature = "train")]
pub(crate) use restore::owners;

use self::flight::Flight;
use self::piece::PieceRun;
use self::ranks::Heard;
use self::rebuild::Sizes;
use super::accumulator::Accumulator;
use super::chain::{Chain, Context, Mode};
use super::exec::position::{Pass, Position};
use super::memory::{Meter, ledger::Ledger};
use super::parcel::Parcel;
use super::streams::SideStream;
use super::tape::Tape;
use crate::ids::{MicroBatchId, RankId, ReplicaId, SegmentId, StageId};
use crate::plan::layout::ChainLayout;
use crate::plan::policy::StagePolicy;
use crate::units::Bytes;

/// Everything that one worker owns.
pub(crate) struct Stage<C: Chain> {
    id: StageId,
    replica: ReplicaId,
    /// Which of how many ranks.
    share: (RankId, usize),
    /// Where the ranks meet.
    sums: Sums,
    /// Outside autodiff.
    device: Device,
    module: C,
    /// The stage's segments, in order, as they run.
    pieces: Vec<Piece<C>>,
    runs: Vec<PieceRun>,
    /// The stage's first segment of the chain.
    first: usize,
    /// The first segment of the chain with a trainable parameter: nothing before it needs a tape.
    first_trainable: usize,
    optimizer: ModuleOptimizer,
    accumulator: Accumulator,
    flights: BTreeMap<MicroBatchId, Flight<C>>,
    ledger: Ledger,
    meter: Meter,
    /// Of what the meter reads since the stage was made, what is not the micro-batches'.
    elsewhere: i64,
    seed: u64,
    step: u64,
    /// The place among all replicas' micro-batches of this one's first.
    first_micro_batch: usize,
    recomputed: Vec<u64>,
    /// Since the last time somebody asked.
    rebuildings: Vec<Rebuilding>,
    /// What may be recomputed while the stage waits.
    ahead: Ahead,
    sizes: Sizes,
    /// The most bytes that a forward added to the ledger, for a moment or to stay, in the run before
    /// and in this one. (A thread's very first forward also fills caches.)
    forward_growth: (i64, i64),
    /// What is recomputed ahead is queued here.
    side: Option<SideStream>,
    position: Arc<Position>,
}

/// What a stage is made of.
pub(crate) struct StageParts<'a, C> {
    pub(crate) id: StageId,
    pub(crate) replica: ReplicaId,
    /// Which of how many ranks.
    pub(crate) share: (RankId, usize),
    /// The whole chain, with the collectives between these ranks.
    pub(crate) layout: &'a ChainLayout,
    pub(crate) device: Device,
    pub(crate) module: C,
    pub(crate) policy: StagePolicy,
    pub(crate) range: std::ops::Range<usize>,
    pub(crate) first_trainable: usize,
    pub(crate) optimizer: ModuleOptimizer,
    pub(crate) seed: u64,
    pub(crate) ahead: Ahead,
    /// Whether what is recomputed ahead has a stream of its own.
    pub(crate) streams: bool,
    pub(crate) position: Arc<Position>,
}

impl<C: Chain> Stage<C> {
    pub(crate) fn new(parts: StageParts<'_, C>) -> Self {
        let sums = Sums::of(parts.layout);
        let device = parts.device.clone();
        let first_trainable = parts.first_trainable;
        let (ranges, runs) = piece::deal(&parts.policy, parts.layout, &sums, first_trainable);
        let pieces: Vec<Piece<C>> = ranges
            .into_iter()
            .map(|range| Piece::of(&parts.module, range))
            .collect();
        Self {
            id: parts.id,
            replica: parts.replica,
            share: parts.share,
            sums,
            meter: Meter::None,
            elsewhere: 0,
            device: parts.device,
            accumulator: Accumulator::new(
                pieces
                    .iter()
                    .map(|piece| (piece.range.start, &piece.resting)),
            ),
            pieces,
            runs,
            first: parts.range.start,
            first_trainable: parts.first_trainable,
            optimizer: parts.optimizer,
            flights: BTreeMap::new(),
            ledger: Ledger::default(),
            seed: parts.seed,
            step: 0,
            first_micro_batch: 0,
            recomputed: vec![0; parts.range.len()],
            rebuildings: Vec::new(),
            ahead: parts.ahead,
            sizes: Sizes::new(),
            forward_growth: (0, 0),
            side: parts.streams.then(|| SideStream::of(&device)).flatten(),
            position: parts.position,
            module: parts.module,
        }
    }

    /// Makes the pieces' modules anew, from changed parameters.
    fn cut_again(&mut self) {
        for piece in &mut self.pieces {
            *piece = Piece::of(&self.module, piece.range.clone());
        }
    }

    /// Obeys another policy from here on; nothing may be in flight.
    pub(crate) fn obey(&mut self, policy: &StagePolicy, ahead: Ahead, layout: &ChainLayout) {
        let (ranges, runs) = piece::deal(policy, layout, &self.sums, self.first_trainable);
        let pieces = ranges.into_iter();
        self.pieces = pieces.map(|range| Piece::of(&self.module, range)).collect();
        self.runs = runs;
        self.ahead = ahead;
        self.sizes.clear();
        self.forward_growth = (0, 0);
        let pieces = self.pieces.iter();
        let modules = pieces.map(|piece| (piece.range.start, &piece.resting));
        self.accumulator.deal_again(modules);
    }

    pub(crate) fn module(&self) -> &C {
        &self.module
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Lets the stage's own stream wait for what was recomputed ahead on the other. Before this, only
    /// transfers may be queued: what autodiff finds in nobody else's hands it changes in place, even
    /// what a recompute that is still queued has yet to read.
    pub(super) fn join_streams(&mut self) {
        if let Some(side) = &mut self.side {
            side.join();
        }
    }

    /// Prepares for a step: begins a new peak and counts from zero.
    pub(crate) fn begin(&mut self, step: u64, first_micro_batch: usize) {
        self.step = step;
        self.first_micro_batch = first_micro_batch;
        self.meter = Meter::of(&self.device);
        self.flights.clear();
        self.ledger.reset_peak();
        self.recomputed.fill(0);
        self.rebuildings.clear();
        if self.forward_growth.1 > 0 {
            self.forward_growth = (self.forward_growth.1, 0);
        }
    }

    pub(crate) fn report(&self, times: StageTimes) -> StageReport {
        StageReport {
            replica: self.replica,
            stage: self.id,
            rank: self.share.0,
            retained_peak: self.ledger.peak(),
            retained: self.ledger.current(),
            tapes_measured: !matches!(self.meter, Meter::None),
            recomputed: self
                .recomputed
                .iter()
                .enumerate()
                .map(|(offset, &count)| (SegmentId(self.first + offset), count))
                .collect(),
            times,
        }
    }

    /// The context of a segment, noting that it is the one being run.
    fn context(
        &self,
        mode: Mode,
        pass: Pass,
        micro_batch: MicroBatchId,
        segment: usize,
    ) -> Context {
        // The loss, which comes behind the last segment, counts as a part of it.
        let place = segment.min(self.sums.segments().saturating_sub(1));
        self.position.at(micro_batch, place, pass);
        let (rank, ranks) = self.share;
        // Chance must not depend on who the micro-batch is dealt to.
        let of_all = MicroBatchId(self.first_micro_batch + micro_batch.0);
        Context::new(mode, self.seed, self.step, of_all, SegmentId(segment)).on_rank(rank, ranks)
    }

    /// Runs a piece without a tape. The target is for the stage's last one.
    fn untracked(
        &self,
        piece: usize,
        mode: Mode,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: &Option<C::Target>,
    ) -> Result<PieceOutput<C::Boundary>, StageError> {
        let target = target.as_ref().filter(|_| piece + 1 == self.pieces.len());
        let context = |segment| self.context(mode, Pass::Forward, micro_batch, segment);
        let mut heard = Heard::default();
        let look = |segment, output: &_| heard.listen(self, segment, output);
        let output = self.pieces[piece].untracked(input, target, context, look);
        heard.or(output)
    }

    /// Runs a piece on a tape. The target is for the stage's last one.
    fn tracked(
        &self,
        piece: usize,
        pass: Pass,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: &Option<C::Target>,
    ) -> Result<(Tape, PieceOutput<C::Boundary>), StageError> {
        let target = target.as_ref().filter(|_| piece + 1 == self.pieces.len());
        let piece = &self.pieces[piece];
        let track_input = piece.range.start > self.first_trainable;
        let context = |segment| self.context(Mode::Training, pass, micro_batch, segment);
        let mut heard = Heard::default();
        let look = |segment, output: &_| heard.listen(self, segment, output);
        let recorded = piece.tracked(&self.device, input, target, track_input, context, look);
        heard.or(recorded)
    }

    /// What the meter reads of micro-batches, next to another reading.
    fn reading(&self) -> Option<i64> {
        self.meter.read().map(|bytes| bytes - self.elsewhere)
    }

    /// Bytes of boundaries and tapes kept now.
    pub(crate) fn retained(&self) -> Bytes {
        self.ledger.current()
    }

    /// Micro-batches between forward and backward.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }
}
