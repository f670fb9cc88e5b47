//! What each segment of a layer holds, and what is made anew of a layer, by where that is done.

use crate::plan::planner::layer::{Mode, Place, SegmentBytes};
use crate::plan::planner::{LayerGroup, Replay, SegmentCost, StageProblem};
use crate::units::{Bytes, Nanos};

/// Recompute of one layer at one place.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    pub(super) time: Nanos,
    pub(super) bytes: Bytes,
}

/// Everything that is decided about one layer.
#[derive(Clone, Default)]
pub(super) struct Layer {
    /// What each segment holds from its forward on.
    pub(super) held: Vec<Bytes>,
    /// What each segment's backward frees.
    pub(super) freed: Vec<Bytes>,
    /// Recompute, by place and half.
    work: [Work; PLACES],
    /// Of a whole lot of layers, before the second half of its last.
    pub(super) replay: Work,
}

/// How many places there are.
const PLACES: usize = Place::BeforeFirst as usize + 1;

impl Work {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            time: self.time.saturating_add(other.time),
            bytes: Bytes(self.bytes.0.saturating_add(other.bytes.0)),
        }
    }

    pub(super) fn is_none(self) -> bool {
        self.time == Nanos::ZERO && self.bytes == Bytes(0)
    }
}

impl Layer {
    /// The layer at this place of its group.
    pub(super) fn new(problem: &StageProblem, group: &LayerGroup, at: usize, mode: Mode) -> Self {
        match group.replay {
            Replay::Segments => Self::by_segment(problem, group, mode),
            Replay::Layers(together) => Self::replayed(problem, group.layers, at, together.max(1)),
        }
    }

    /// What is made anew at a place.
    pub(super) fn at(&self, place: Place) -> Work {
        self.work[place as usize]
    }

    fn by_segment(problem: &StageProblem, group: &LayerGroup, mode: Mode) -> Self {
        let mut layer = Self::default();
        for (index, (cost, &choice)) in problem.segments.iter().zip(&group.choices).enumerate() {
            if let Some(place) = Place::of(choice, index >= problem.split, mode) {
                let work = &mut layer.work[place as usize];
                work.time = work.time.saturating_add(cost.recompute);
            }
            let segment = SegmentBytes::new(problem, &group.choices, index, mode);
            let mut freed = segment.held;
            for (place, bytes) in segment.made {
                let work = &mut layer.work[place as usize];
                work.bytes.0 = work.bytes.0.saturating_add(bytes);
                freed = freed.saturating_add(bytes);
            }
            layer.held.push(Bytes(segment.held));
            layer.freed.push(Bytes(freed));
        }
        layer
    }

    fn replayed(problem: &StageProblem, layers: usize, at: usize, together: usize) -> Self {
        let mut layer = Self {
            held: problem.segments.iter().map(|s| s.notes).collect(),
            freed: problem
                .segments
                .iter()
                .map(|s| s.tape.max(s.notes))
                .collect(),
            ..Self::default()
        };
        let input = problem.segments[0].kept_input;
        if at.is_multiple_of(together) {
            layer.held[0].0 = layer.held[0].0.saturating_add(input.0);
        }
        let is_last = at + 1 == layers || (at + 1).is_multiple_of(together);
        if is_last {
            let lot = (at % together + 1) as u64;
            let one = u64::try_from(problem.replayed_layer()).unwrap_or(u64::MAX);
            let tapes = problem.segments.iter().map(SegmentCost::remade);
            let tapes = tapes.fold(0, u64::saturating_add).saturating_mul(lot);
            layer.replay = Work {
                time: Nanos(one).saturating_mul(lot),
                bytes: Bytes(tapes.saturating_sub(input.0)),
            };
        }
        layer
    }
}
