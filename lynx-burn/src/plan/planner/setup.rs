//! Problems from a profile and a cluster: the numbers that a stage's planner is told.
//!
//! Where idle time comes from is in `setup_windows`; a plan's times and bytes part by part, for the
//! simulator, are made in [`forecast`](crate::plan::forecast) from the same figures.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::problem::{Ends, SegmentCost, StageProblem};
use super::replicas::Replicas;
use super::setup_error::StageSetupError;
use super::setup_windows::split;
use crate::plan::cluster::{Cluster, Collective, Window};
use crate::plan::profile::{LayerKind, ModelProfile, SegmentProfile, WeightBytes};
use crate::plan::schedule::Kind;
use crate::units::{Bytes, Nanos};

/// How a model is trained, as far as it is not for a stage's planner to decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The order of work.
    pub schedule: Kind,
    /// Stages of the pipeline.
    pub stages: usize,
    /// Micro-batches of a step.
    pub micro_batches: u64,
    /// What a device may hold.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
    /// The windows that may be used.
    pub windows: Vec<Window>,
    /// Whether a stage stands still until its own messages have left.
    pub blocking_sends: bool,
    /// Whether the gradients of a segment's weights are computed beside the collectives that follow
    /// its backward, as Megatron-LM does it. What is hidden there is hidden for every planner, and
    /// leaves the less room for recompute.
    pub overlap_weight_gradients: bool,
    /// How many micro-batches more than the schedule asks for each stage holds: its forwards run
    /// ahead, see [`deepen`](crate::plan::schedule::deepen). Empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_in_flight: Vec<usize>,
    /// Replicas of this pipeline that train together, if there are several. Micro-batches, budget
    /// and all else is told of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// The machines.
    pub cluster: Cluster,
    /// The model, for one tensor-parallel rank.
    pub profile: ModelProfile,
}

impl Setup {
    /// 1F1B with all of a device's memory and every window, without blocking sends and hidden
    /// weight gradients.
    pub fn new(
        profile: &ModelProfile,
        cluster: &Cluster,
        stages: usize,
        micro_batches: u64,
    ) -> Self {
        Self {
            schedule: Kind::OneFOneB,
            stages,
            micro_batches,
            budget: cluster.device.memory,
            windows: Window::ALL.to_vec(),
            blocking_sends: false,
            overlap_weight_gradients: false,
            extra_in_flight: Vec::new(),
            replicas: None,
            cluster: cluster.clone(),
            profile: profile.clone(),
        }
    }

    /// Refuses a profile or cluster that is none, and counts that contradict each other.
    pub fn validate(&self) -> Result<(), StageSetupError> {
        let (stages, layers) = (self.stages, self.profile.layer_count());
        self.profile.validate().map_err(StageSetupError::Profile)?;
        self.cluster.validate().map_err(StageSetupError::Cluster)?;
        if stages == 0 || stages > layers {
            return Err(StageSetupError::Stages { stages, layers });
        }
        if self.micro_batches == 0 {
            return Err(StageSetupError::NoMicroBatches);
        }
        if let Some(replicas) = &self.replicas {
            replicas.validate()?;
        }
        let given = self.extra_in_flight.len();
        if given != 0 && given != stages {
            return Err(StageSetupError::ExtraCount { given, stages });
        }
        Ok(())
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
            if forward {
                let collectives = self.time(&segment.after_forward);
                return segment.forward.saturating_add(collectives);
            }
            let collectives = self.time(&segment.after_backward);
            let time = segment.backward().saturating_add(collectives);
            time.saturating_sub(self.weight_gradients_beside(segment))
        };
        let sum = |forward: bool| {
            let layer: Nanos = kind.segments.iter().map(|s| pass(s, forward)).sum();
            let ends: Nanos = around.iter().map(|s| pass(s, forward)).sum();
            layer.saturating_mul(count as u64).saturating_add(ends)
        };
        let (in_flight, cool_down) = self.in_flight(stage)?;
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

    /// The one kind of these layers.
    pub(in crate::plan) fn kind(
        &self,
        stage: usize,
        layers: &Range<usize>,
    ) -> Result<&LayerKind, StageSetupError> {
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
    pub(in crate::plan) fn ends(&self, stage: usize) -> (&[SegmentProfile], &[SegmentProfile]) {
        let none: &[SegmentProfile] = &[];
        let first = stage == 0;
        let last = stage + 1 == self.stages;
        (
            if first { &self.profile.embedding } else { none },
            if last { &self.profile.head } else { none },
        )
    }

    pub(in crate::plan) fn time(&self, collectives: &[Collective]) -> Nanos {
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
            notes: segment.notes,
            workspace: segment.workspace,
            collective: (!collectives.is_empty()).then(|| self.time(collectives)),
        }
    }

    /// What the gradients of a stage with so many layers take.
    pub(in crate::plan) fn gradients(
        &self,
        stage: usize,
        kind: &LayerKind,
        layers: usize,
    ) -> Bytes {
        self.weights(kind, layers, self.ends(stage), |weights| weights.gradients)
    }

    fn fixed(
        &self,
        kind: &LayerKind,
        layers: usize,
        ends: (&[SegmentProfile], &[SegmentProfile]),
    ) -> Bytes {
        self.weights(kind, layers, ends, |weights| weights.total())
    }

    /// Bytes of all weights of a stage.
    fn weights(
        &self,
        kind: &LayerKind,
        layers: usize,
        ends: (&[SegmentProfile], &[SegmentProfile]),
        of: fn(&WeightBytes) -> Bytes,
    ) -> Bytes {
        let around = ends.0.iter().chain(ends.1).map(|segment| segment.weights);
        let around = around.fold(WeightBytes::default(), |sum, one| sum.plus(&one));
        let around = if ends.0.is_empty() || ends.1.is_empty() {
            around
        } else {
            around.minus(&self.profile.tied)
        };
        let inside = of(&kind.weights()).0.saturating_mul(layers as u64);
        Bytes(inside.saturating_add(of(&around).0))
    }
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
