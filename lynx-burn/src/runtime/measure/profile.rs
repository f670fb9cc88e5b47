//! From readings to a profile.

use std::ops::Range;

use super::bytes::RangeBytes;
use super::kinds::Deal;
use super::probe::{Probe, Times};
use super::report::{BytesFrom, Measured, MeasuredSegment};
use super::subject::Facts;
use super::{MeasureError, MeasureOptions, Spread, weights};
use crate::plan::cluster::{Collective, CollectiveKind};
use crate::plan::profile::{LayerKind, ModelProfile, SegmentProfile, WeightBytes};
use crate::runtime::chain::Chain;
use crate::units::{Bytes, Nanos};

/// Everything that was read.
pub(super) struct Parts<'a, C: Chain> {
    pub(super) deal: &'a Deal,
    /// Of every segment of the chain.
    pub(super) facts: &'a [Facts],
    /// Of the measured segments.
    pub(super) probes: &'a [Probe<C>],
    /// Of the same.
    pub(super) workspaces: &'a [Option<Bytes>],
    /// Of the measured ranges.
    pub(super) bytes: &'a [RangeBytes],
    pub(super) options: &'a MeasureOptions,
}

impl<C: Chain> Parts<'_, C> {
    pub(super) fn assemble(&self, bytes_from: BytesFrom) -> Result<Measured, MeasureError> {
        let copies = self.options.optimizer_copies;
        let ends = [&self.deal.embedding, &self.deal.head];
        let [embedding, head] = ends.map(|range| self.part(std::slice::from_ref(range)));
        let mut kinds = Vec::with_capacity(self.deal.kinds.len());
        let mut segments = labelled("embedding", &embedding);
        for kind in &self.deal.kinds {
            let members = self.part(&kind.measured);
            segments.extend(labelled(&kind.name, &members));
            kinds.push(LayerKind {
                name: kind.name.clone(),
                segments: costs(members),
            });
        }
        segments.extend(labelled("head", &head));
        let outside = (self.deal.embedding.clone(), self.deal.head.clone());
        let profile = ModelProfile {
            name: self.options.name.clone().unwrap_or_else(type_name::<C>),
            tensor_parallel: self.options.ranks,
            tokens: self.options.tokens,
            embedding: costs(embedding),
            kinds,
            layers: self.deal.runs(),
            head: costs(head),
            tied: weights::tied(self.facts, outside, copies),
        };
        profile.validate()?;
        Ok(Measured {
            profile,
            segments,
            bytes_from,
            repeats: self.options.repeats,
        })
    }

    /// The segments of like ranges as one: times of all of them, the most bytes of any.
    fn part(&self, ranges: &[Range<usize>]) -> Vec<MeasuredSegment> {
        let copies = self.options.optimizer_copies;
        let first = ranges.first().cloned().unwrap_or_default();
        let weights = weights::of(self.facts, first.clone(), copies);
        let mut segments: Vec<MeasuredSegment> = Vec::with_capacity(weights.len());
        // Retained neighbours of a layer share a tape, and a backward over it yields the gradients
        // of all their parameters at its end: those of later segments wait.
        let mut waiting = 0;
        for (offset, weights) in weights.into_iter().enumerate().rev() {
            let members = ranges.iter().map(|range| range.start + offset);
            let mut segment = self.segment(members.collect(), weights);
            if segment.costs.workspace > Bytes(0) && self.deal.is_layer(&first) {
                segment.costs.workspace.0 += waiting;
                waiting += weights.gradients.0;
            }
            segments.push(segment);
        }
        segments.reverse();
        segments
    }

    fn segment(&self, members: Vec<usize>, weights: WeightBytes) -> MeasuredSegment {
        let probes = self.probes.iter().zip(self.workspaces);
        let probes: Vec<_> = probes
            .filter(|(probe, _)| members.contains(&probe.segment))
            .collect();
        let spread = |read: fn(&Times) -> &Vec<Nanos>| {
            let all = probes.iter().flat_map(|(probe, _)| read(&probe.times));
            Spread::of(&all.copied().collect::<Vec<_>>())
        };
        let handling = self.handling(&members);
        let handling_before = match members.iter().all(|&m| m > self.deal.first_trainable) {
            true => self.handling(&members.iter().map(|&m| m - 1).collect::<Vec<_>>()),
            false => Nanos::ZERO,
        };
        let forward = spread(|times| &times.forward);
        let recompute = spread(|times| &times.recompute);
        let backward = spread(|times| &times.backward);
        let most = |read: &dyn Fn(usize) -> u64| {
            Bytes(
                members
                    .iter()
                    .map(|&member| read(member))
                    .max()
                    .unwrap_or(0),
            )
        };
        let workspaces = probes.iter().filter_map(|(_, workspace)| **workspace);
        let name = probes.first().map(|(probe, _)| probe.name.clone());
        MeasuredSegment {
            part: String::new(),
            costs: SegmentProfile {
                name: name.unwrap_or_default(),
                forward: forward.median.saturating_add(handling),
                backward_input: backward.median.saturating_add(handling_before),
                backward_weight: None,
                recompute: recompute.median,
                tape: most(&|member| self.kept(member).tape),
                kept_input: most(&|member| self.kept(member).input),
                notes: most(&|member| self.kept(member).notes),
                boundary: most(&|member| self.facts[member].output_bytes),
                workspace: workspaces.max().unwrap_or_default(),
                after_forward: self.sums(members.first().copied()),
                after_backward: self.sums_back(members.first().copied()),
                weights,
            },
            forward,
            recompute,
            backward,
        }
    }

    /// What a rank does itself for the sum behind these like segments; of those that were not
    /// measured, as behind others that hand on as much.
    fn handling(&self, segments: &[usize]) -> Nanos {
        let bytes = |segment: usize| self.facts.get(segment).map(|facts| &facts.summed_bytes);
        let like = |probe: &&Probe<C>| {
            let mut segments = segments.iter();
            segments.any(|&s| s == probe.segment || bytes(s) == bytes(probe.segment))
        };
        let probes = self.probes.iter().filter(like);
        let all: Vec<Nanos> = probes
            .flat_map(|probe| probe.times.handling.clone())
            .collect();
        Spread::of(&all).median
    }

    /// What ranks sum of a segment's output.
    fn sums(&self, segment: Option<usize>) -> Vec<Collective> {
        let facts = segment.and_then(|segment| self.facts.get(segment));
        let sizes = facts.filter(|_| self.options.ranks > 1);
        let sizes = sizes.map_or(&[][..], |facts| &facts.summed_bytes);
        // One collective, however many tensors.
        let size = Bytes(sizes.iter().sum());
        let kind = CollectiveKind::AllReduce;
        Vec::from_iter((size > Bytes(0)).then_some(Collective { kind, size }))
    }

    /// What they sum of the gradient of its input; behind the last segment, of its output's too,
    /// whose backward is the loss.
    fn sums_back(&self, segment: Option<usize>) -> Vec<Collective> {
        let before = segment.and_then(|segment| segment.checked_sub(1));
        let learns = segment.is_some_and(|segment| segment > self.deal.first_trainable);
        let mut sums = self.sums(before.filter(|_| learns));
        let is_last = segment.is_some_and(|segment| segment + 1 == self.facts.len());
        sums.extend(self.sums(segment.filter(|_| is_last)));
        sums
    }

    /// What a segment keeps, or guesses of it.
    fn kept(&self, segment: usize) -> Kept {
        let measured = self.bytes.iter().find_map(|bytes| {
            let offset = segment.checked_sub(bytes.range.start)?;
            let within = bytes.range.contains(&segment).then_some(offset)?;
            let tape = bytes.tapes.get(within)?.0;
            // What was measured holds both, and where nothing learns, neither.
            let both = bytes.kept_inputs.get(within)?.0;
            let notes = self.facts[segment].noted_bytes.min(both);
            let input = both - notes;
            Some(Kept { tape, input, notes })
        });
        measured.unwrap_or_else(|| {
            if segment < self.deal.first_trainable {
                return Kept::default();
            }
            let facts = &self.facts[segment];
            Kept {
                tape: facts.input_bytes + facts.output_bytes,
                input: facts.input_bytes,
                notes: 0,
            }
        })
    }
}

/// Bytes that a segment keeps: retained the first, recomputed the other two.
#[derive(Default)]
struct Kept {
    tape: u64,
    input: u64,
    notes: u64,
}

fn labelled(part: &str, segments: &[MeasuredSegment]) -> Vec<MeasuredSegment> {
    let label = |segment: &MeasuredSegment| MeasuredSegment {
        part: part.to_owned(),
        ..segment.clone()
    };
    segments.iter().map(label).collect()
}

fn costs(segments: Vec<MeasuredSegment>) -> Vec<SegmentProfile> {
    segments.into_iter().map(|segment| segment.costs).collect()
}

/// The type's name without its path and parameters.
fn type_name<C>() -> String {
    let full = std::any::type_name::<C>();
    let plain = full.split('<').next().unwrap_or(full);
    plain.rsplit("::").next().unwrap_or(plain).to_owned()
}
