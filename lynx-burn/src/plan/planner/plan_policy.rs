//! From a plan to what the runtime obeys, and why that may fail.

use std::ops::Range;

use super::choice::{Replay, SegmentChoice};
use super::deal_error::DealError;
use super::layer::is_fed;
use super::plan::Plan;
use super::problem::StageProblem;
use crate::ids::{SegmentId, StageId};
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
    /// What finds its input where the segment before it was recomputed is recomputed with that one;
    /// what does not keeps its own. Layers that are replayed together are so here.
    pub fn policy(&self, layout: &ChainLayout) -> Result<Policy, PlanError> {
        let stages = self.map_segments(layout, Choice::Retain, |at| {
            let choice = at.choices[at.segment];
            match (at.replay, choice.is_recomputed()) {
                (Replay::Layers(_), _) if at.segment == 0 && at.begins_lot => Choice::Restart,
                (Replay::Layers(_), _) => Choice::Replay,
                (Replay::Segments, false) => Choice::Retain,
                (Replay::Segments, true) => match at.segment.checked_sub(1) {
                    Some(before)
                        if !is_fed(at.problem, at.segment, (at.choices[before], choice)) =>
                    {
                        Choice::Restart
                    }
                    _ => Choice::Recompute,
                },
            }
        })?;
        Ok(Policy::ByHand(stages))
    }

    /// What the runtime may recompute before its backward needs it, for every segment of every stage.
    ///
    /// Recompute in F1, F2, SEND or RECV is there before the backward anyway, so it may fill any
    /// wait; recompute in a BUBBLE may in the cool-down, where its memory was counted. What is to be
    /// recomputed in B1 or B2 may be as soon as that collective has begun. All other recompute is on
    /// demand.
    pub fn ahead(&self, layout: &ChainLayout) -> Result<Vec<Vec<Advance>>, PlanError> {
        use Window::{B1, B2, Bubble, F1, F2, Recv, Send};
        self.map_segments(layout, Advance::Never, |at| {
            let Some(window) = at.choices[at.segment].window() else {
                return Advance::Never;
            };
            let split = at.problem.split;
            // Of collectives by the segment before them: the middle and the end of a layer.
            let own_middle = SegmentId(at.layer.start + split - 1);
            let end = SegmentId(at.layer.end - 1);
            match window {
                F1 | F2 | Send | Recv => Advance::Always,
                Bubble => Advance::CoolDown,
                B1 if at.segment < split => Advance::Beside(own_middle),
                B1 => match &at.after {
                    Some(after) => Advance::Beside(SegmentId(after.start + split - 1)),
                    // Only the head's collectives come before the last layer.
                    None => Advance::Beside(end),
                },
                B2 => Advance::Beside(end),
            }
        })
    }

    /// What every segment's choice means; `outside` for segments outside layers.
    fn map_segments<T: Clone>(
        &self,
        layout: &ChainLayout,
        outside: T,
        meaning: impl Fn(&At<'_>) -> T,
    ) -> Result<Vec<Vec<T>>, PlanError> {
        self.validate()?;
        if self.partition.segments() != layout.len() {
            return Err(PlanError::OtherChain {
                partition: self.partition.segments(),
                layout: layout.len(),
            });
        }
        let problems = self.problems()?;
        let stages = self.stages.iter().zip(&problems).enumerate();
        let stages = stages.map(|(index, (planned, problem))| {
            let stage = StageId(index);
            let range = self.partition.range(stage);
            let layers = layers(layout, range.clone());
            let given = planned.plan.layers();
            if given != layers.len() {
                return Err(PlanError::LayerCount {
                    stage,
                    layers: layers.len(),
                    planned: given,
                });
            }
            let mut meanings = vec![outside.clone(); range.len()];
            let groups = planned.plan.groups.iter();
            let lots = groups.flat_map(|group| (0..group.layers).map(move |at| (group, at)));
            for (place, (group, at)) in lots.enumerate() {
                let members = layout.layer_range(layers[place]);
                let within = members.start >= range.start && members.end <= range.end;
                if !within || members.len() != group.choices.len() {
                    return Err(PlanError::SegmentCount {
                        stage,
                        layer: layers[place],
                        segments: members.len(),
                        planned: group.choices.len(),
                    });
                }
                let after = layers.get(place + 1);
                let begins_lot = match group.replay {
                    Replay::Segments => true,
                    Replay::Layers(together) => at.is_multiple_of(together.max(1)),
                };
                for segment in 0..members.len() {
                    let at = At {
                        problem,
                        choices: &group.choices,
                        replay: group.replay,
                        begins_lot,
                        segment,
                        layer: members.clone(),
                        after: after.map(|&after| layout.layer_range(after)),
                    };
                    meanings[members.start + segment - range.start] = meaning(&at);
                }
            }
            Ok(meanings)
        });
        stages.collect()
    }
}

/// One segment of a stage's layer.
struct At<'a> {
    problem: &'a StageProblem,
    /// Of the layer.
    choices: &'a [SegmentChoice],
    replay: Replay,
    /// Whether the layer is the first of those that are replayed together.
    begins_lot: bool,
    /// In the layer.
    segment: usize,
    /// The layer's segments in the chain.
    layer: Range<usize>,
    /// Those of the stage's next layer.
    after: Option<Range<usize>>,
}

/// The layers of which a stage holds something.
fn layers(layout: &ChainLayout, range: Range<usize>) -> Vec<usize> {
    let mut layers: Vec<usize> = range.filter_map(|s| layout.layer_of(s)).collect();
    layers.dedup();
    layers
}
