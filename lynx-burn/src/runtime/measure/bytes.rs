//! What segments keep of a micro-batch.
//!
//! A stage is run forward under one policy and under another, and the difference is what one
//! segment's choice costs. That is not a sum over tensors by name: a tensor may be on several
//! tapes, a residual stream passes through segments that do not touch it, and what one segment
//! keeps the next one has for nothing.
//!
//! How much a segment adds depends on what those before it keep, and a profile has one number for
//! it. It is the largest, so that a plan never promises too little. Two cases suffice to find it.
//! What a segment can share with those before it are tensors that its layer got or made. If any
//! segment before it is recomputed, that one's input is kept, and with it everything the layer got
//! that passes on; so of all such cases the one that shares least keeps nothing else: *all before
//! it recomputed*. The other is *all before it retained*, whose tapes may hold no tensor of the
//! layer's input. Where nothing is shared, both are equal.

use std::ops::Range;

use burn::optim::SgdConfig;

use super::MeasureError;
use super::report::BytesFrom;
use super::subject::{MICRO_BATCH, Subject};
use crate::ids::{MicroBatchId, ReplicaId, StageId};
use crate::plan::policy::{Run, StagePolicy};
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::Parts;
use crate::runtime::exec::error::Cause;
use crate::runtime::memory::Meter;
use crate::runtime::parcel::Parcel;
use crate::runtime::stage::{Ahead, Ranks, Stage, StageError, StageParts, Sum};
use crate::units::Bytes;

/// Of the segments of a layer, or of all before or after the layers.
pub(super) struct RangeBytes {
    pub(super) range: Range<usize>,
    /// What each adds if it is retained.
    pub(super) tapes: Vec<Bytes>,
    /// What each adds if it is recomputed, and the segment before it is not: its input, and what its
    /// operations note.
    pub(super) kept_inputs: Vec<Bytes>,
}

/// Measures the segments of `range`, whose first gets `input`.
pub(super) fn of<C: Chain>(
    subject: &Subject<C>,
    range: Range<usize>,
    input: &Parcel<C::Boundary>,
    first_trainable: usize,
) -> Result<RangeBytes, MeasureError> {
    let mut found = RangeBytes {
        range: range.clone(),
        tapes: Vec::with_capacity(range.len()),
        kept_inputs: Vec::with_capacity(range.len()),
    };
    if BytesFrom::of(&subject.device) == BytesFrom::BoundarySizes {
        return Ok(found);
    }
    let bench = Bench {
        subject,
        input,
        first: range.start,
        first_trainable,
        one_group: subject.layout.layer_of(range.start).is_some(),
    };
    for index in 0..range.len() {
        let retained = bench.held(0, index)?;
        let recomputed = bench.held(index, 0)?;
        let tape = (bench.held(0, index + 1)? - retained).max(bench.held(index, 1)? - recomputed);
        let after_retained = bench.held_and_recomputed(0, index)? - retained;
        let kept_input = match index.checked_sub(1) {
            Some(before) => {
                let alone = bench.held_and_recomputed(before, 1)? - bench.held(before, 1)?;
                after_retained.max(alone)
            }
            None => after_retained,
        };
        found.tapes.push(bytes(tape));
        found.kept_inputs.push(bytes(kept_input));
    }
    Ok(found)
}

/// A difference of readings; freed caches may take it below nothing.
fn bytes(difference: i64) -> Bytes {
    Bytes(difference.max(0) as u64)
}

/// Runs the beginning of a range under policies.
struct Bench<'a, C: Chain> {
    subject: &'a Subject<C>,
    input: &'a Parcel<C::Boundary>,
    first: usize,
    first_trainable: usize,
    /// Whether recomputed neighbours are a group: outside layers they are not.
    one_group: bool,
}

impl<C: Chain> Bench<'_, C> {
    /// What is held by so many recomputed segments and so many retained ones behind them.
    fn held(&self, recomputed: usize, retained: usize) -> Result<i64, MeasureError> {
        self.forward(self.runs(recomputed, retained), recomputed + retained)
    }

    /// The same with one more segment, which is recomputed.
    fn held_and_recomputed(&self, recomputed: usize, retained: usize) -> Result<i64, MeasureError> {
        let mut runs = self.runs(recomputed, retained);
        let last = self.first + recomputed + retained;
        runs.push(Run::Recompute(last..last + 1));
        self.forward(runs, recomputed + retained + 1)
    }

    fn runs(&self, recomputed: usize, retained: usize) -> Vec<Run> {
        let middle = self.first + recomputed;
        let mut runs: Vec<Run> = if self.one_group && recomputed > 0 {
            vec![Run::Recompute(self.first..middle)]
        } else {
            let each = self.first..middle;
            each.map(|segment| Run::Recompute(segment..segment + 1))
                .collect()
        };
        runs.extend((middle..middle + retained).map(Run::Retain));
        runs
    }

    /// What a stage of these segments holds of a micro-batch whose input and output nobody else
    /// holds.
    fn forward(&self, runs: Vec<Run>, segments: usize) -> Result<i64, MeasureError> {
        if segments == 0 {
            return Ok(0);
        }
        let range = self.first..self.first + segments;
        let layout = &self.subject.layout;
        let mut stage = Stage::new(StageParts {
            id: StageId(0),
            replica: ReplicaId(0),
            share: self.subject.share,
            layout,
            device: self.subject.device.clone(),
            module: self.subject.module(range.clone()),
            policy: StagePolicy::of(runs),
            range: range.clone(),
            first_trainable: self.first_trainable,
            optimizer: SgdConfig::new().init(),
            seed: 0,
            ahead: Ahead::Never,
            streams: false,
            position: self.subject.position.clone(),
        });
        stage.begin(0, 0);
        // What a stage and a thread allocate once and for all goes with the first micro-batch.
        self.take(&mut stage, MicroBatchId(MICRO_BATCH.0 + 1), range.end)?;
        let before = self.read()?;
        self.take(&mut stage, MICRO_BATCH, range.end)?;
        Ok(self.read()? - before)
    }

    /// Takes a micro-batch through a stage that ends before `end`.
    fn take(
        &self,
        stage: &mut Stage<C>,
        micro_batch: MicroBatchId,
        end: usize,
    ) -> Result<(), MeasureError> {
        let target = self.subject.target_of(end - 1).cloned();
        let input = self.input.clone().with_own_storage();
        let output = stage.forward(micro_batch, input, target, &mut Unsummed);
        let output = output.map_err(|error| self.subject.failed(Cause::Stage(error)))?;
        drop(output);
        Ok(())
    }

    fn read(&self) -> Result<i64, MeasureError> {
        self.subject.settle()?;
        let device = &self.subject.device;
        Ok(Meter::of(device).read().unwrap_or_default())
    }
}

/// One rank alone: its parts are as large as the sums would be.
struct Unsummed;

impl<C: Chain> Ranks<C> for Unsummed {
    fn sum(&mut self, _: &mut Stage<C>, _: Sum, parts: Parts) -> Result<Parts, StageError> {
        Ok(parts)
    }
}
