//! One stage: its segments, what its micro-batches keep, and its optimizer.
//!
//! A stage knows nothing of threads and neighbours. It turns a boundary into the next one
//! ([`Stage::forward`]), a gradient into the previous one ([`Stage::backward`]) and the sums of
//! gradients into new parameters ([`Stage::apply`]).

mod error;
mod flight;
mod segment;
mod update;

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::optim::ModuleOptimizer;
use burn::prelude::*;

pub use error::StageError;
pub(crate) use segment::SegmentOutput;

use self::flight::{Flight, Held};
use self::segment::SegmentModule;
use super::accumulator::Accumulator;
use super::boundary::{Boundary, Signature, ToDevice};
use super::chain::{Chain, Context, Mode};
use super::exec::position::{Pass, Position};
use super::gradient::Gradient;
use super::memory::{Meter, ledger::Ledger};
use super::parcel::Parcel;
use crate::ids::{MicroBatchId, SegmentId, StageId};
use crate::plan::policy::{Run, StagePolicy};
use crate::units::Bytes;

/// Everything that one worker owns.
pub(crate) struct Stage<C: Chain> {
    id: StageId,
    /// Outside autodiff.
    device: Device,
    module: C,
    /// The stage's segments in order; the first is segment `first` of the chain.
    segments: Vec<SegmentModule<C>>,
    first: usize,
    policy: StagePolicy,
    /// The first segment of the chain with a trainable parameter: nothing before it needs a tape.
    first_trainable: usize,
    optimizer: ModuleOptimizer,
    accumulator: Accumulator,
    flights: BTreeMap<MicroBatchId, Flight<C>>,
    ledger: Ledger,
    meter: Meter,
    seed: u64,
    step: u64,
    recomputed: Vec<u64>,
    position: Arc<Position>,
}

/// What a stage is made of.
pub(crate) struct StageParts<C> {
    pub(crate) id: StageId,
    pub(crate) device: Device,
    pub(crate) module: C,
    pub(crate) policy: StagePolicy,
    pub(crate) range: std::ops::Range<usize>,
    pub(crate) first_trainable: usize,
    pub(crate) optimizer: ModuleOptimizer,
    pub(crate) seed: u64,
    pub(crate) position: Arc<Position>,
}

/// What a stage reports of a step.
#[derive(Clone, Debug)]
pub struct StageReport {
    /// Which stage.
    pub stage: StageId,
    /// The most bytes of boundaries and tapes that were kept at one time.
    pub retained_peak: Bytes,
    /// Bytes kept now: zero between steps.
    pub retained: Bytes,
    /// Whether tapes could be seen. If not, the bytes are those of kept boundaries alone: install
    /// [`TrackingAllocator`](crate::memory::TrackingAllocator) to see them on a CPU.
    pub tapes_measured: bool,
    /// How often each segment was recomputed, from the stage's first segment on.
    pub recomputed: Vec<(SegmentId, u64)>,
}

impl<C: Chain> Stage<C> {
    pub(crate) fn new(parts: StageParts<C>) -> Self {
        let mut stage = Self {
            id: parts.id,
            meter: Meter::None,
            device: parts.device,
            segments: Vec::new(),
            first: parts.range.start,
            policy: parts.policy,
            first_trainable: parts.first_trainable,
            optimizer: parts.optimizer,
            accumulator: Accumulator::default(),
            flights: BTreeMap::new(),
            ledger: Ledger::default(),
            seed: parts.seed,
            step: 0,
            recomputed: vec![0; parts.range.len()],
            position: parts.position,
            module: parts.module,
        };
        stage.cut(parts.range);
        stage.accumulator = Accumulator::new(
            stage
                .segments
                .iter()
                .map(|segment| (segment.index, &segment.resting)),
        );
        stage
    }

    /// Makes the segments' modules from the stage's: at the beginning and after each update.
    fn cut(&mut self, range: std::ops::Range<usize>) {
        self.segments = range
            .map(|index| SegmentModule::of(&self.module, index))
            .collect();
    }

    pub(crate) fn module(&self) -> &C {
        &self.module
    }

    /// Prepares for a step: begins a new peak and counts from zero.
    pub(crate) fn begin(&mut self, step: u64) {
        self.step = step;
        self.meter = Meter::of(&self.device);
        self.flights.clear();
        self.ledger.reset_peak();
        self.recomputed.fill(0);
    }

    pub(crate) fn report(&self) -> StageReport {
        StageReport {
            stage: self.id,
            retained_peak: self.ledger.peak(),
            retained: self.ledger.current(),
            tapes_measured: !matches!(self.meter, Meter::None),
            recomputed: self
                .recomputed
                .iter()
                .enumerate()
                .map(|(offset, &count)| (SegmentId(self.first + offset), count))
                .collect(),
        }
    }

    fn context(&self, mode: Mode, micro_batch: MicroBatchId, segment: usize) -> Context {
        Context::new(mode, self.seed, self.step, micro_batch, SegmentId(segment))
    }

    /// Runs a segment without a tape.
    fn untracked(
        &self,
        segment: usize,
        mode: Mode,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: Option<&C::Target>,
    ) -> SegmentOutput<C::Boundary> {
        let context = self.context(mode, micro_batch, segment);
        self.segments[segment - self.first].untracked(input, target, &context)
    }

    /// Runs a segment on a tape.
    fn tracked(
        &self,
        segment: usize,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: Option<&C::Target>,
    ) -> (segment::SegmentTape<C>, SegmentOutput<C::Boundary>) {
        let context = self.context(Mode::Training, micro_batch, segment);
        let track_input = segment > self.first_trainable;
        self.segments[segment - self.first].tracked(
            &self.device,
            input,
            target,
            track_input,
            &context,
        )
    }

    /// Takes a micro-batch through the stage, keeping what its backward will need.
    ///
    /// `target` is there on the last stage, whose output then is the loss.
    pub(crate) fn forward(
        &mut self,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: Option<C::Target>,
    ) -> Result<SegmentOutput<C::Boundary>, StageError> {
        let input = input.map_tensors(&mut ToDevice(&self.device));
        let target = target.map(|target| target.map_tensors(&mut ToDevice(&self.device)));
        let mut flight = Flight::new(self.bytes_of(&input));
        self.ledger.book(micro_batch, flight.arrived());
        let runs: Vec<Run> = self.policy.runs().to_vec();
        let mut output = SegmentOutput::Next(input);
        for run in runs {
            let SegmentOutput::Next(current) = output else {
                break;
            };
            let before = self.meter.read();
            let held_input = current.clone();
            let (held, produced) = match run {
                Run::Retain(segment) => self.retain(segment, micro_batch, current, &target),
                Run::Recompute(group) => self.skip(group, micro_batch, current, &target),
            };
            output = produced;
            let after = self.meter.read();
            // What the run allocated and kept is its own; what goes with its input, if nobody
            // kept that, belonged to whoever made the input.
            drop(held_input);
            let dropped = self.meter.read();
            let kept = match (before, after, dropped) {
                (Some(before), Some(after), Some(dropped)) => {
                    flight.release_from_last(dropped - after);
                    self.ledger.book(micro_batch, dropped - before);
                    after - before
                }
                _ => {
                    let kept = match &held {
                        Held::Input { input, .. } => self.bytes_of(input),
                        Held::Tape { .. } | Held::Nothing => 0,
                    };
                    self.ledger.book(micro_batch, kept);
                    kept
                }
            };
            flight.push(held, kept);
        }
        if let (SegmentOutput::Next(boundary), Some(_)) = (&output, self.meter.read()) {
            // The boundary is the next stage's from here on.
            let sent = -self.bytes_of(boundary);
            self.ledger.book(micro_batch, sent);
            flight.release_from_last(sent);
        }
        flight.set_target(target);
        self.flights.insert(micro_batch, flight);
        Ok(output)
    }

    /// Bytes of a boundary's tensors, as far as the meter would see them.
    fn bytes_of(&self, boundary: &Parcel<C::Boundary>) -> i64 {
        Signature::of(boundary).bytes_from(self.meter.smallest())
    }

    /// A segment whose tape is kept.
    fn retain(
        &mut self,
        segment: usize,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: &Option<C::Target>,
    ) -> (Held<C>, SegmentOutput<C::Boundary>) {
        let target = target.as_ref().filter(|_| self.is_last_segment(segment));
        if segment < self.first_trainable {
            self.position.at(micro_batch, segment, Pass::Forward);
            let output = self.untracked(segment, Mode::Training, micro_batch, input, target);
            return (Held::Nothing, output);
        }
        self.position.at(micro_batch, segment, Pass::Forward);
        let (tape, output) = self.tracked(segment, micro_batch, input, target);
        (Held::Tape { segment, tape }, output)
    }

    /// A group that will be recomputed: only its first input is kept.
    fn skip(
        &mut self,
        group: std::ops::Range<usize>,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: &Option<C::Target>,
    ) -> (Held<C>, SegmentOutput<C::Boundary>) {
        let mut output = SegmentOutput::Next(input);
        let mut kept = None;
        for segment in group.clone() {
            let SegmentOutput::Next(current) = output else {
                break;
            };
            if segment == group.start.max(self.first_trainable) {
                kept = Some(current.clone());
            }
            self.position.at(micro_batch, segment, Pass::Forward);
            let target = target.as_ref().filter(|_| self.is_last_segment(segment));
            output = self.untracked(segment, Mode::Training, micro_batch, current, target);
        }
        let held = match kept {
            Some(input) => Held::Input {
                group: group.start.max(self.first_trainable)..group.end,
                input,
                output: Signature::of(&output),
            },
            None => Held::Nothing,
        };
        (held, output)
    }

    fn is_last_segment(&self, segment: usize) -> bool {
        segment + 1 == self.first + self.segments.len()
    }

    /// Takes the gradient of a micro-batch's output back through the stage; returns its input's.
    pub(crate) fn backward(
        &mut self,
        micro_batch: MicroBatchId,
        gradients: Vec<Option<Gradient>>,
    ) -> Result<Vec<Option<Gradient>>, StageError> {
        let mut flight = self
            .flights
            .remove(&micro_batch)
            .ok_or(StageError::NothingKept { micro_batch })?;
        let mut gradients: Vec<Option<Gradient>> = gradients
            .into_iter()
            .map(|gradient| gradient.map(|gradient| gradient.moved_to(&self.device)))
            .collect();
        let target = flight.take_target();
        while let Some((held, bytes)) = flight.pop() {
            match held {
                Held::Nothing => {
                    // Frozen from here down.
                    gradients.clear();
                    break;
                }
                Held::Tape { segment, tape } => {
                    gradients = self.pull(micro_batch, segment, tape, gradients)?;
                    self.ledger.book(micro_batch, -bytes);
                }
                Held::Input {
                    group,
                    input,
                    output,
                } => {
                    let before = self.meter.read();
                    let tapes = self.rebuild(micro_batch, group, input, &output, &target)?;
                    let rebuilt = match (before, self.meter.read()) {
                        (Some(before), Some(after)) => after - before,
                        _ => 0,
                    };
                    self.ledger.book(micro_batch, rebuilt);
                    for (segment, tape) in tapes.into_iter().rev() {
                        gradients = self.pull(micro_batch, segment, tape, gradients)?;
                    }
                    self.ledger.book(micro_batch, -(bytes + rebuilt));
                }
            }
        }
        self.accumulator.settle(&self.module);
        self.ledger.close(micro_batch);
        Ok(gradients)
    }

    /// Runs a group again, each segment on a tape.
    fn rebuild(
        &mut self,
        micro_batch: MicroBatchId,
        group: std::ops::Range<usize>,
        input: Parcel<C::Boundary>,
        expected: &Signature,
        target: &Option<C::Target>,
    ) -> Result<Vec<(usize, segment::SegmentTape<C>)>, StageError> {
        let mut tapes = Vec::with_capacity(group.len());
        let mut output = SegmentOutput::Next(input);
        for segment in group.clone() {
            let SegmentOutput::Next(current) = output else {
                break;
            };
            self.position.at(micro_batch, segment, Pass::Recompute);
            let target = target.as_ref().filter(|_| self.is_last_segment(segment));
            let (tape, next) = self.tracked(segment, micro_batch, current, target);
            self.recomputed[segment - self.first] += 1;
            tapes.push((segment, tape));
            output = next;
        }
        let found = Signature::of(&output);
        if found != *expected {
            return Err(StageError::RecomputeDiffers {
                expected: expected.dims.clone(),
                found: found.dims,
            });
        }
        Ok(tapes)
    }

    fn pull(
        &mut self,
        micro_batch: MicroBatchId,
        segment: usize,
        tape: segment::SegmentTape<C>,
        gradients: Vec<Option<Gradient>>,
    ) -> Result<Vec<Option<Gradient>>, StageError> {
        self.position.at(micro_batch, segment, Pass::Backward);
        let pulled = tape.backward(gradients)?;
        let module = &self.segments[segment - self.first].resting;
        self.accumulator.add(segment, module, pulled.parameters);
        Ok(pulled.input)
    }

    /// Takes a micro-batch through the stage and keeps nothing.
    pub(crate) fn infer(
        &mut self,
        mode: Mode,
        micro_batch: MicroBatchId,
        input: Parcel<C::Boundary>,
        target: Option<C::Target>,
    ) -> Result<SegmentOutput<C::Boundary>, StageError> {
        let target = target.map(|target| target.map_tensors(&mut ToDevice(&self.device)));
        let mut output = SegmentOutput::Next(input.map_tensors(&mut ToDevice(&self.device)));
        for segment in self.first..self.first + self.segments.len() {
            let SegmentOutput::Next(current) = output else {
                break;
            };
            self.position.at(micro_batch, segment, Pass::Forward);
            let target = target.as_ref().filter(|_| self.is_last_segment(segment));
            output = self.untracked(segment, mode, micro_batch, current, target);
        }
        Ok(output)
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
