//! From a plan to what the runtime obeys, and why that may fail.

use std::num::NonZeroUsize;

use super::choice::{Replay, SegmentChoice, StagePlan};
use super::deal_error::DealError;
use super::plan::Plan;
use crate::ids::StageId;
use crate::plan::advance::Advance;
use crate::plan::cluster::Window;
use crate::plan::forecast::ForecastError;
use crate::plan::layout::{ChainLayout, LayoutError};
use crate::plan::partition::PartitionError;
use crate::plan::policy::{Choice, Policy};
use crate::plan::sim::SimError;
use crate::units::Bytes;

/// A plan that does not fit itself or a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// No deal.
    #[error(transparent)]
    Deal(#[from] DealError),
    /// No chain.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No step.
    #[error(transparent)]
    Forecast(#[from] ForecastError),
    /// A step that cannot be timed.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// No partition.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// As many stages must be planned as there are.
    #[error("{planned} stages are planned, but the partition has {stages}")]
    StageCount {
        /// The stages that are planned.
        planned: usize,
        /// The stages of the partition.
        stages: usize,
    },
    /// A partition of another chain.
    #[error("the partition is of a chain of {partition} segments, but this one has {layout}")]
    OtherChain {
        /// The segments of the partition.
        partition: usize,
        /// The segments of the chain.
        layout: usize,
    },
    /// Choices must be there for the layers of the stage.
    #[error("{stage} holds {layers} layers, but {planned} are planned")]
    LayerCount {
        /// The stage.
        stage: StageId,
        /// The layers it holds.
        layers: usize,
        /// The layers that are planned.
        planned: usize,
    },
    /// Choices must be there for every segment of a layer.
    #[error("layer {layer} on {stage} has {segments} segments, but {planned} choices")]
    SegmentCount {
        /// The stage.
        stage: StageId,
        /// The layer.
        layer: usize,
        /// Its segments.
        segments: usize,
        /// The choices.
        planned: usize,
    },
    /// A stage over its budget.
    #[error("{stage} holds {peak}, more than the budget of {budget}")]
    OverBudget {
        /// The stage.
        stage: StageId,
        /// What it holds.
        peak: Bytes,
        /// What it may hold.
        budget: Bytes,
    },
}

impl Plan {
    /// What the runtime recomputes. Segments outside layers are retained.
    ///
    /// Stages that replay all their layers so many at once are said so, if all do alike; where
    /// they differ, every layer is a group of its own.
    pub fn policy(&self, layout: &ChainLayout) -> Result<Policy, PlanError> {
        let recomputed = |choice: SegmentChoice| match choice.is_recomputed() {
            true => Choice::Recompute,
            false => Choice::Retain,
        };
        let by_hand = self.map_choices(layout, recomputed)?;
        let outside = (0..layout.len()).any(|segment| layout.layer_of(segment).is_none());
        match self.together() {
            Some(count) if !outside => Ok(Policy::Uniform(count)),
            _ => Ok(Policy::ByHand(by_hand)),
        }
    }

    /// What the runtime may recompute before its backward, for every segment of every stage.
    ///
    /// Recompute in F1, F2, SEND or RECV is there before the backward anyway, so it may fill any
    /// wait; recompute in a BUBBLE may in the cool-down, where its memory was counted. All other
    /// recompute is on demand: so is that of B1 and B2, since there are no collectives to hide it.
    pub fn ahead(&self, layout: &ChainLayout) -> Result<Vec<Vec<Advance>>, PlanError> {
        use Window::{B1, B2, Bubble, F1, F2, Recv, Send};
        self.map_choices(layout, |choice| match choice.window() {
            Some(F1 | F2 | Send | Recv) => Advance::Always,
            Some(Bubble) => Advance::CoolDown,
            Some(B1 | B2) | None => Advance::Never,
        })
    }

    /// What every segment's choice means; segments outside layers are retained.
    fn map_choices<T>(
        &self,
        layout: &ChainLayout,
        meaning: impl Fn(SegmentChoice) -> T,
    ) -> Result<Vec<Vec<T>>, PlanError> {
        self.validate()?;
        if self.partition.segments() != layout.len() {
            return Err(PlanError::OtherChain {
                partition: self.partition.segments(),
                layout: layout.len(),
            });
        }
        let stages = self.stages.iter().enumerate();
        let stages = stages.map(|(index, stage)| {
            let choices = self.choices(layout, StageId(index), &stage.plan)?;
            Ok(choices.into_iter().map(&meaning).collect())
        });
        stages.collect()
    }

    /// How many layers all stages replay at once.
    fn together(&self) -> Option<NonZeroUsize> {
        let mut counts = self.stages.iter().map(|stage| match stage.plan.groups[..] {
            [ref group] => match group.replay {
                Replay::Layers(count) => Some(count),
                Replay::Segments => None,
            },
            _ => None,
        });
        let first = counts.next()??;
        let alike = counts.all(|count| count == Some(first));
        alike.then(|| NonZeroUsize::new(first))?
    }

    fn choices(
        &self,
        layout: &ChainLayout,
        stage: StageId,
        plan: &StagePlan,
    ) -> Result<Vec<SegmentChoice>, PlanError> {
        let range = self.partition.range(stage);
        let mut layers: Vec<usize> = range.clone().filter_map(|s| layout.layer_of(s)).collect();
        layers.dedup();
        let planned = plan.layers();
        if planned != layers.len() {
            return Err(PlanError::LayerCount {
                stage,
                layers: layers.len(),
                planned,
            });
        }
        let mut choices = vec![SegmentChoice::Retain; range.len()];
        for (&layer, group) in layers.iter().zip(plan.by_layer()) {
            let members = layout.layer_range(layer);
            let within = members.start >= range.start && members.end <= range.end;
            if !within || members.len() != group.choices.len() {
                return Err(PlanError::SegmentCount {
                    stage,
                    layer,
                    segments: members.len(),
                    planned: group.choices.len(),
                });
            }
            for (segment, &choice) in members.zip(&group.choices) {
                choices[segment - range.start] = choice;
            }
        }
        Ok(choices)
    }
}
