//! From a policy to the runs of every stage.
//!
//! Two questions are answered per segment, and nothing else is decided here: is
//! it recomputed, and does it join the group of the segment before it?

use std::ops::Range;

use super::{Choice, Policy, PolicyError, Run, StagePolicy};
use crate::ids::{SegmentId, StageId};
use crate::plan::layout::ChainLayout;
use crate::plan::partition::Partition;

impl Policy {
    /// The runs of every stage of `partition`.
    pub fn resolve(
        &self,
        layout: &ChainLayout,
        partition: &Partition,
    ) -> Result<Vec<StagePolicy>, PolicyError> {
        self.check(layout, partition)?;
        let stages = partition.ranges().enumerate();
        Ok(stages
            .map(|(stage, range)| self.resolve_stage(layout, stage, range))
            .collect())
    }

    fn check(&self, layout: &ChainLayout, partition: &Partition) -> Result<(), PolicyError> {
        if partition.segments() != layout.len() {
            return Err(PolicyError::OtherChain {
                partition: partition.segments(),
                layout: layout.len(),
            });
        }
        match self {
            Self::Selective(names) => check_names(names, layout),
            Self::ByHand(stages) => {
                check_counts(stages, partition)?;
                check_replays(stages, partition)
            }
            Self::RetainAll | Self::RecomputeAll | Self::EveryKth(_) | Self::Uniform(_) => Ok(()),
        }
    }

    fn resolve_stage(
        &self,
        layout: &ChainLayout,
        stage: usize,
        range: Range<usize>,
    ) -> StagePolicy {
        let first_layer = range.clone().find_map(|s| layout.layer_of(s)).unwrap_or(0);
        // Neighbours with the same key share a group; `None` shares with nobody.
        let key = |segment| {
            let layer = layout.layer_of(segment)?;
            Some(match self {
                Self::Uniform(layers) => (layer - first_layer) / *layers,
                _ => layer,
            })
        };
        // A collective is not done twice, unless whole layers are replayed.
        let repeats = matches!(self, Self::Uniform(_));
        let may_join = |segment: usize| {
            let alike = key(segment).is_some() && key(segment) == key(segment - 1);
            alike && (repeats || !layout.is_summed(segment - 1))
        };
        let mut runs: Vec<Run> = Vec::new();
        for segment in range.clone() {
            let choice = self.choose(layout, segment, stage, segment - range.start);
            let joins = match choice {
                Choice::Retain | Choice::Restart => false,
                Choice::Recompute => segment > range.start && may_join(segment),
                Choice::Replay => true,
            };
            match (choice, runs.last_mut()) {
                (Choice::Retain, _) => runs.push(Run::Retain(segment)),
                (_, Some(Run::Recompute(group))) if joins => group.end = segment + 1,
                _ => runs.push(Run::Recompute(segment..segment + 1)),
            }
        }
        StagePolicy { runs }
    }

    /// The choice for `segment`, which is number `within` of `stage`.
    fn choose(&self, layout: &ChainLayout, segment: usize, stage: usize, within: usize) -> Choice {
        let recompute = match self {
            Self::RetainAll => false,
            Self::RecomputeAll | Self::Uniform(_) => true,
            Self::EveryKth(k) => layout.layer_of(segment).is_some_and(|l| l % *k == 0),
            Self::Selective(names) => names.contains(&layout.segments()[segment].name),
            Self::ByHand(stages) => return stages[stage][within],
        };
        if recompute {
            Choice::Recompute
        } else {
            Choice::Retain
        }
    }
}

fn check_names(names: &[String], layout: &ChainLayout) -> Result<(), PolicyError> {
    let mut known: Vec<String> = Vec::new();
    for segment in layout.segments() {
        if !known.contains(&segment.name) {
            known.push(segment.name.clone());
        }
    }
    match names.iter().find(|name| !known.contains(name)).cloned() {
        Some(name) => Err(PolicyError::UnknownSegment { name, known }),
        None => Ok(()),
    }
}

fn check_counts(stages: &[Vec<Choice>], partition: &Partition) -> Result<(), PolicyError> {
    if stages.len() != partition.stages() {
        return Err(PolicyError::StageCount {
            given: stages.len(),
            stages: partition.stages(),
        });
    }
    for (stage, (choices, range)) in stages.iter().zip(partition.ranges()).enumerate() {
        if choices.len() != range.len() {
            return Err(PolicyError::SegmentCount {
                stage: StageId(stage),
                given: choices.len(),
                segments: range.len(),
            });
        }
    }
    Ok(())
}

fn check_replays(stages: &[Vec<Choice>], partition: &Partition) -> Result<(), PolicyError> {
    for (choices, range) in stages.iter().zip(partition.ranges()) {
        let mut before = Choice::Retain;
        for (&choice, segment) in choices.iter().zip(range) {
            if choice == Choice::Replay && before == Choice::Retain {
                let segment = SegmentId(segment);
                return Err(PolicyError::NothingToReplay { segment });
            }
            before = choice;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
