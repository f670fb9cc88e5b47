//! Where idle time comes from: the windows of a stage.
//!
//! Windows F1, F2, B1 and B2 are the collectives of a layer; RECV is the way of the gradient from
//! the stage after; SEND, that of the boundary to it, is idle only where a stage waits for its own
//! messages to leave; before each backward of the cool-down lies a gap of about one forward
//! (BUBBLE). All of it times the cluster's contention, less what is done there already.

use std::ops::Range;

use super::problem::Windows;
use super::setup::Setup;
use super::setup_error::StageSetupError;
use crate::plan::cluster::Window;
use crate::plan::profile::{LayerKind, SegmentProfile};
use crate::plan::schedule::Kind;
use crate::units::Nanos;

impl Setup {
    /// Micro-batches in flight when most are, and backwards after the last forward but one.
    pub(super) fn in_flight(&self, stage: usize) -> Result<(u64, u64), StageSetupError> {
        let behind = (self.stages - 1 - stage) as u64;
        let ahead = behind.saturating_add(self.extra(stage));
        match self.schedule {
            Kind::OneFOneB => Ok((
                self.micro_batches.min(ahead.saturating_add(1)),
                self.micro_batches.min(ahead),
            )),
            Kind::GPipe => Ok((self.micro_batches, self.micro_batches)),
            schedule => Err(StageSetupError::Unplanned { schedule }),
        }
    }

    fn extra(&self, stage: usize) -> u64 {
        self.extra_in_flight.get(stage).map_or(0, |&n| n as u64)
    }

    /// What of a segment's weight gradients is computed beside the collectives after its backward.
    pub(in crate::plan) fn weight_gradients_beside(&self, segment: &SegmentProfile) -> Nanos {
        let work = match segment.backward_weight {
            Some(work) if self.overlap_weight_gradients => work,
            _ => return Nanos::ZERO,
        };
        // B1 and B2 are alike: both are collectives of a layer's backward.
        let window = self.time(&segment.after_backward);
        work.min(self.cluster.contention.capacity(Window::B2, window))
    }

    pub(super) fn stage_windows(
        &self,
        stage: usize,
        layers: &Range<usize>,
        (kind, split): (&LayerKind, usize),
        forward: Nanos,
    ) -> Windows {
        let (first, second) = kind.segments.split_at(split);
        let forward_of = |half: &[SegmentProfile]| -> Nanos {
            half.iter().map(|s| self.time(&s.after_forward)).sum()
        };
        let contention = &self.cluster.contention;
        let room = |window, length| {
            let room = contention.capacity(window, length);
            (room > Nanos::ZERO).then_some(room)
        };
        let backward_of = |window, segments: &[SegmentProfile]| {
            let length = segments.iter().map(|s| self.time(&s.after_backward)).sum();
            let beside = segments.iter().map(|s| self.weight_gradients_beside(s));
            let room = contention.capacity(window, length);
            let room = room.saturating_sub(beside.sum());
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
        let head = self.ends(stage).1;
        let windows = Windows {
            f1: room(Window::F1, forward_of(first)),
            f2: room(Window::F2, forward_of(second)),
            b1: backward_of(Window::B1, second),
            b2: backward_of(Window::B2, first),
            send: room(Window::Send, sending),
            recv: room(Window::Recv, message),
            bubble: room(Window::Bubble, gap),
            entry: backward_of(Window::B2, head).unwrap_or_default(),
        };
        windows.only(|window| self.windows.contains(&window))
    }
}

/// Where the second half of a layer begins.
pub(in crate::plan) fn split(kind: &LayerKind) -> usize {
    let count = kind.segments.len();
    let after = kind
        .segments
        .iter()
        .position(|s| !s.after_forward.is_empty());
    let within = after.map(|index| index + 1).filter(|&index| index < count);
    let before = || (1..count).find(|&index| !kind.segments[index].after_backward.is_empty());
    within.or_else(before).unwrap_or(count)
}
