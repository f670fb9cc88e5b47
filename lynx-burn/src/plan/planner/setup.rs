//! Problems from a profile and a cluster: the numbers that a stage's planner is told.
//!
//! This is the one place that knows where idle time comes from. Windows F1, F2, B1 and B2 are the
//! collectives of a layer; RECV is the way of the gradient from the stage after; SEND, that of the
//! boundary to it, is idle only where a stage waits for its own messages to leave; before each
//! backward of the cool-down lies a gap of about one forward (BUBBLE). All of it times the
//! cluster's contention.

use std::ops::Range;

use super::problem::{Ends, SegmentCost, StageProblem, Windows};
use super::setup_error::StageSetupError;
use crate::plan::cluster::{Cluster, Collective, Window};
use crate::plan::profile::{LayerKind, ModelProfile, SegmentProfile, WeightBytes};
use crate::plan::schedule::interleaved::warm_up;
use crate::plan::schedule::{Kind, Shape};
use crate::units::{Bytes, Nanos};

/// How a model is trained, as far as it is not for the planner to decide.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The model, for one tensor-parallel rank.
    pub profile: &'a ModelProfile,
    /// The machines.
    pub cluster: &'a Cluster,
    /// The order of work.
    pub schedule: Kind,
    /// Stages of the pipeline.
    pub stages: usize,
    /// Micro-batches of a step.
    pub micro_batches: u64,
    /// What a device may hold.
    pub budget: Bytes,
    /// The windows that may be used.
    pub windows: Vec<Window>,
    /// Whether a stage stands still until its own messages have left.
    pub blocking_sends: bool,
}

impl<'a> Setup<'a> {
    /// 1F1B with all of a device's memory and every window, without blocking sends.
    pub fn new(
        profile: &'a ModelProfile,
        cluster: &'a Cluster,
        stages: usize,
        micro_batches: u64,
    ) -> Self {
        Self {
            profile,
            cluster,
            schedule: Kind::OneFOneB,
            stages,
            micro_batches,
            budget: cluster.device.memory,
            windows: Window::ALL.to_vec(),
            blocking_sends: false,
        }
    }

    /// What the planner of a stage is told that holds these layers of the model.
    pub fn problem(
        &self,
        stage: usize,
        layers: Range<usize>,
    ) -> Result<StageProblem, StageSetupError> {
        let kind = self.kind(stage, &layers)?;
        let split = split(kind);
        let count = layers.len();
        let ends = self.ends(stage);
        let (head, tail) = (ends.0.iter(), ends.1.iter());
        let around: Vec<&SegmentProfile> = head.chain(tail).collect();
        let pass = |segment: &SegmentProfile, forward: bool| {
            let (time, collectives) = if forward {
                (segment.forward, &segment.after_forward)
            } else {
                (segment.backward(), &segment.after_backward)
            };
            time.saturating_add(self.time(collectives))
        };
        let sum = |forward: bool| {
            let layer: Nanos = kind.segments.iter().map(|s| pass(s, forward)).sum();
            let ends: Nanos = around.iter().map(|s| pass(s, forward)).sum();
            layer.saturating_mul(count as u64).saturating_add(ends)
        };
        let (in_flight, cool_down) = self.in_flight(stage);
        let forward = sum(true);
        Ok(StageProblem {
            stage,
            layers: count,
            segments: kind.segments.iter().map(|s| self.segment(s)).collect(),
            split,
            in_flight,
            steady: self.micro_batches.saturating_sub(cool_down),
            cool_down,
            windows: self.stage_windows(stage, &layers, (kind, split), forward),
            forward,
            backward: sum(false),
            fixed: self.fixed(kind, count, ends),
            before: ends_of(ends.0),
            after: ends_of(ends.1),
            budget: self.budget,
        })
    }

    /// How long a boundary takes to the stage after this one, with any layers on either.
    pub fn transfer(&self, stage: usize, layers: &Range<usize>) -> Nanos {
        let last = layers.end.checked_sub(1);
        let kind = last.and_then(|layer| self.profile.kind_of(layer));
        let boundary = kind.and_then(|kind| kind.segments.last());
        match boundary {
            Some(segment) if stage + 1 < self.stages => {
                let ranks = self.profile.tensor_parallel;
                let bytes = segment.boundary;
                self.cluster.transfer_time(bytes, stage, stage + 1, ranks)
            }
            _ => Nanos::ZERO,
        }
    }

    fn kind(&self, stage: usize, layers: &Range<usize>) -> Result<&LayerKind, StageSetupError> {
        if stage >= self.stages {
            let stages = self.stages;
            return Err(StageSetupError::NoSuchStage { stage, stages });
        }
        let none = || StageSetupError::NoSuchLayers {
            stage,
            from: layers.start,
            to: layers.end,
            layers: self.profile.layer_count(),
        };
        if layers.is_empty() || layers.end > self.profile.layer_count() {
            return Err(none());
        }
        let first = self.profile.kind_of(layers.start).ok_or_else(none)?;
        // Runs of like layers: only where they begin can the kind change.
        let mut start = 0_usize;
        for run in &self.profile.layers {
            if layers.contains(&start) && run.kind != first.name {
                return Err(StageSetupError::MixedKinds {
                    stage,
                    first: first.name.clone(),
                    other: run.kind.clone(),
                });
            }
            start = start.saturating_add(run.count);
        }
        Ok(first)
    }

    /// The segments before and after the layers of a stage.
    fn ends(&self, stage: usize) -> (&[SegmentProfile], &[SegmentProfile]) {
        let none: &[SegmentProfile] = &[];
        let first = stage == 0;
        let last = stage + 1 == self.stages;
        (
            if first { &self.profile.embedding } else { none },
            if last { &self.profile.head } else { none },
        )
    }

    /// Micro-batches in flight, and backwards after the last forward.
    fn in_flight(&self, stage: usize) -> (u64, u64) {
        let behind = (self.stages - 1 - stage) as u64;
        match self.schedule {
            Kind::OneFOneB => (
                self.micro_batches.min(behind + 1),
                self.micro_batches.min(behind),
            ),
            Kind::GPipe => (self.micro_batches, self.micro_batches),
            // A chunk is a part of the stage: parts that make up less than a
            // whole micro-batch are taken for one.
            Kind::Interleaved { .. } => {
                let chunks = self.schedule.chunks();
                let stages = self.stages;
                let shape = Shape { stages, chunks };
                let warm_up = match chunks {
                    1 => behind,
                    _ => warm_up(stage, shape) as u64,
                };
                let whole = |units: u64| self.micro_batches.min(units.div_ceil(chunks as u64));
                (whole(warm_up.saturating_add(1)), whole(warm_up))
            }
            // What waits for its weights' gradients is held, on every stage.
            Kind::ZbH1 => (
                self.micro_batches.min(self.stages as u64),
                self.micro_batches.min(behind),
            ),
        }
    }

    fn time(&self, collectives: &[Collective]) -> Nanos {
        let ranks = self.profile.tensor_parallel;
        self.cluster.collectives_time(collectives, ranks)
    }

    fn segment(&self, segment: &SegmentProfile) -> SegmentCost {
        let collectives = &segment.after_forward;
        SegmentCost {
            name: segment.name.clone(),
            forward: segment.forward,
            recompute: segment.recompute,
            tape: segment.tape,
            kept_input: segment.kept_input,
            workspace: segment.workspace,
            collective: (!collectives.is_empty()).then(|| self.time(collectives)),
        }
    }

    fn stage_windows(
        &self,
        stage: usize,
        layers: &Range<usize>,
        (kind, split): (&LayerKind, usize),
        forward: Nanos,
    ) -> Windows {
        let (first, second) = kind.segments.split_at(split);
        let all = |half: &[SegmentProfile], forward: bool| -> Nanos {
            let collectives = half.iter().map(|segment| match forward {
                true => &segment.after_forward,
                false => &segment.after_backward,
            });
            collectives.map(|list| self.time(list)).sum()
        };
        let room = |window, length| {
            let room = self.cluster.contention.capacity(window, length);
            (room > Nanos::ZERO).then_some(room)
        };
        let message = self.transfer(stage, layers);
        let sending = if self.blocking_sends {
            message
        } else {
            Nanos::ZERO
        };
        let gap = match self.schedule {
            Kind::OneFOneB if stage + 1 < self.stages => forward,
            _ => Nanos::ZERO,
        };
        let head = all(self.ends(stage).1, false);
        let windows = Windows {
            f1: room(Window::F1, all(first, true)),
            f2: room(Window::F2, all(second, true)),
            b1: room(Window::B1, all(second, false)),
            b2: room(Window::B2, all(first, false)),
            send: room(Window::Send, sending),
            recv: room(Window::Recv, message),
            bubble: room(Window::Bubble, gap),
            entry: room(Window::B2, head).unwrap_or_default(),
        };
        windows.only(|window| self.windows.contains(&window))
    }

    fn fixed(
        &self,
        kind: &LayerKind,
        layers: usize,
        ends: (&[SegmentProfile], &[SegmentProfile]),
    ) -> Bytes {
        let around = ends.0.iter().chain(ends.1).map(|segment| segment.weights);
        let around = around.fold(WeightBytes::default(), |sum, one| sum.plus(&one));
        let around = if ends.0.is_empty() || ends.1.is_empty() {
            around
        } else {
            around.minus(&self.profile.tied)
        };
        let inside = kind.weights().total().0.saturating_mul(layers as u64);
        Bytes(inside.saturating_add(around.total().0))
    }
}

/// Where the second half of a layer begins.
fn split(kind: &LayerKind) -> usize {
    let count = kind.segments.len();
    let after = kind
        .segments
        .iter()
        .position(|s| !s.after_forward.is_empty());
    let within = after.map(|index| index + 1).filter(|&index| index < count);
    let before = || (1..count).find(|&index| !kind.segments[index].after_backward.is_empty());
    within.or_else(before).unwrap_or(count)
}

fn ends_of(segments: &[SegmentProfile]) -> Ends {
    let tapes = segments.iter().map(|segment| segment.tape.0);
    let workspaces = segments.iter().map(|segment| segment.workspace);
    Ends {
        tape: Bytes(tapes.fold(0, u64::saturating_add)),
        workspace: workspaces.max().unwrap_or_default(),
    }
}

#[cfg(test)]
#[path = "setup_tests.rs"]
mod tests;
