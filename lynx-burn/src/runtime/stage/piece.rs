//! Segments that run as one.
//!
//! A recomputed segment is a piece of its own. Retained neighbours within a layer are one piece and
//! share a tape: nothing can come between them, and a tape costs some 70 µs of autodiff's
//! bookkeeping, which for five small segments a layer was 3.5 % of a step.

use std::ops::Range;

use burn::prelude::*;

use super::ranks::Sums;
use crate::plan::layout::ChainLayout;
use crate::plan::policy::{Run, StagePolicy};
use crate::runtime::boundary::{Boundary, Lower, TensorMap};
use crate::runtime::chain::{Chain, Context};
use crate::runtime::parcel::{Parcel, Untracked};
use crate::runtime::tape::Tape;

/// What a piece yields: the next boundary or, from the chain's last one, the loss.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one value a piece, moved a few times"
)]
pub(crate) enum PieceOutput<B> {
    Next(Parcel<B>),
    Loss(Tensor<1>),
}

impl<B: Boundary> Boundary for PieceOutput<B> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        match self {
            Self::Next(parcel) => Self::Next(parcel.map_tensors(map)),
            Self::Loss(loss) => Self::Loss(map.float(loss)),
        }
    }
}

/// What a stage does with some of its pieces, by their indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PieceRun {
    /// Keeps the piece's tape.
    Retain(usize),
    /// Keeps the input of the first, and rebuilds all their tapes.
    Recompute(Range<usize>),
}

/// Deals a stage's segments to pieces.
///
/// No piece crosses `first_trainable`: what lies before it has no tape. None crosses a sum over
/// ranks either, and behind the chain's last segment that makes the loss an empty piece of its own.
pub(super) fn deal(
    policy: &StagePolicy,
    layout: &ChainLayout,
    sums: &Sums,
    first_trainable: usize,
) -> (Vec<Range<usize>>, Vec<PieceRun>) {
    let layer = |segment| layout.layer_of(segment);
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut runs = Vec::new();
    for run in policy.runs() {
        match run {
            Run::Retain(segment) => {
                let joins = matches!(runs.last(), Some(PieceRun::Retain(_)))
                    && *segment != first_trainable
                    && sums.before(*segment).is_none()
                    && layer(*segment).is_some()
                    && layer(*segment) == layer(segment.wrapping_sub(1));
                match pieces.last_mut() {
                    Some(piece) if joins => piece.end += 1,
                    _ => {
                        runs.push(PieceRun::Retain(pieces.len()));
                        pieces.push(*segment..segment + 1);
                    }
                }
            }
            Run::Recompute(group) => {
                let first = pieces.len();
                pieces.extend(group.clone().map(|segment| segment..segment + 1));
                runs.push(PieceRun::Recompute(first..pieces.len()));
            }
        }
    }
    let end = pieces.last().map_or(0, |piece| piece.end);
    if end == layout.len() && sums.before(end).is_some() {
        runs.push(PieceRun::Retain(pieces.len()));
        pieces.push(end..end);
    }
    (pieces, runs)
}

/// The chain reduced to a piece, in the two forms in which it runs.
pub(crate) struct Piece<C> {
    pub(crate) range: Range<usize>,
    /// Outside autodiff: what fresh leaves are made from.
    pub(crate) resting: C,
    /// On autodiff without gradients: takes the tracked forward's code paths, keeps nothing.
    still: C,
}

impl<C: Chain> Piece<C> {
    pub(crate) fn of(stage: &C, range: Range<usize>) -> Self {
        // The loss alone may use what the last segment holds.
        let kept = match range.is_empty() {
            true => range.start.saturating_sub(1)..range.end,
            false => range.clone(),
        };
        let resting = stage.clone().keep(kept).valid();
        let still = resting.clone().train().no_grad();
        Self {
            range,
            resting,
            still,
        }
    }

    /// Runs the piece without a tape. `context` is asked for before each segment, and `look` is shown
    /// its output.
    pub(crate) fn untracked(
        &self,
        input: Parcel<C::Boundary>,
        target: Option<&C::Target>,
        context: impl Fn(usize) -> Context,
        look: impl FnMut(usize, &C::Boundary),
    ) -> PieceOutput<C::Boundary> {
        let input = input.enter(&mut Untracked);
        let target = target.cloned().map(on_autodiff);
        let range = self.range.clone();
        run(&self.still, range, input, target, (context, look)).map_tensors(&mut Lower)
    }

    /// Runs the piece on a tape.
    pub(crate) fn tracked(
        &self,
        device: &Device,
        input: Parcel<C::Boundary>,
        target: Option<&C::Target>,
        track_input: bool,
        context: impl Fn(usize) -> Context,
        look: impl FnMut(usize, &C::Boundary),
    ) -> (Tape, PieceOutput<C::Boundary>) {
        let leaves = self.resting.clone().train();
        let target = target.cloned().map(on_autodiff);
        Tape::record(&leaves, device, input, track_input, |module, input| {
            let range = self.range.clone();
            run(module, range, input, target, (context, look))
        })
    }
}

fn run<C: Chain>(
    module: &C,
    range: Range<usize>,
    input: C::Boundary,
    target: Option<C::Target>,
    (context, mut look): (impl Fn(usize) -> Context, impl FnMut(usize, &C::Boundary)),
) -> PieceOutput<C::Boundary> {
    let end = range.end;
    let output = range.fold(input, |boundary, segment| {
        let output = module.forward_segment(segment, boundary, &context(segment));
        look(segment, &output);
        output
    });
    match target {
        // The loss has streams of its own, behind all segments'.
        Some(target) => PieceOutput::Loss(module.loss(output, target, &context(end))),
        None => PieceOutput::Next(Parcel::from_segment(output)),
    }
}

fn on_autodiff<T: Boundary>(target: T) -> T {
    Parcel::from_outside(target).enter(&mut Untracked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StageId;
    use crate::plan::layout::{ChainLayout, Segment};
    use crate::plan::partition::Partition;
    use crate::plan::policy::Policy;

    fn dealt(policy: &str, first_trainable: usize) -> (Vec<Range<usize>>, Vec<PieceRun>) {
        let layout = ChainLayout::new(segments()).expect("a chain");
        dealt_of(&layout.without_collectives(), policy, first_trainable)
    }

    fn segments() -> Vec<Segment> {
        let mut segments = vec![Segment::outside("embed")];
        for layer in 0..2 {
            segments.extend(["a", "b", "c"].map(|name| match name {
                "a" => Segment::in_layer(layer, name),
                name => Segment::in_layer(layer, name).summed(),
            }));
        }
        segments.push(Segment::outside("head").summed());
        segments
    }

    fn dealt_of(
        layout: &ChainLayout,
        policy: &str,
        first_trainable: usize,
    ) -> (Vec<Range<usize>>, Vec<PieceRun>) {
        let partition = Partition::even(layout, 1).expect("one stage");
        let policy: Policy = policy.parse().expect("a policy");
        let stages = policy.resolve(layout, &partition).expect("it fits");
        assert_eq!(partition.range(StageId(0)), 0..8);
        deal(&stages[0], layout, &Sums::of(layout), first_trainable)
    }

    #[test]
    fn retained_neighbours_of_a_layer_share_a_piece_and_others_do_not() {
        use PieceRun::{Recompute, Retain};
        let (pieces, runs) = dealt("retain", 0);
        assert_eq!(pieces, [0..1, 1..4, 4..7, 7..8]);
        assert_eq!(runs, [Retain(0), Retain(1), Retain(2), Retain(3)]);
        let (pieces, runs) = dealt("selective:b", 0);
        assert_eq!(pieces, [0..1, 1..2, 2..3, 3..4, 4..5, 5..6, 6..7, 7..8]);
        assert_eq!(runs[2], Recompute(2..3));
        let (pieces, runs) = dealt("selective:a", 0);
        assert_eq!(pieces, [0..1, 1..2, 2..4, 4..5, 5..7, 7..8]);
        assert_eq!(runs[1..3], [Recompute(1..2), Retain(2)]);
        let (pieces, runs) = dealt("recompute", 0);
        assert_eq!(pieces.len(), 8);
        assert_eq!(
            runs,
            [
                Recompute(0..1),
                Recompute(1..4),
                Recompute(4..7),
                Recompute(7..8)
            ]
        );
    }

    #[test]
    fn no_piece_crosses_a_sum_and_the_loss_behind_one_is_a_piece() {
        use PieceRun::{Recompute, Retain};
        let layout = ChainLayout::new(segments()).expect("a chain");
        let (pieces, _) = dealt_of(&layout, "retain", 0);
        assert_eq!(pieces, [0..1, 1..3, 3..4, 4..6, 6..7, 7..8, 8..8]);
        let (_, runs) = dealt_of(&layout, "recompute", 0);
        let groups = [0..1, 1..3, 3..4, 4..6, 6..7, 7..8];
        let expected: Vec<_> = groups
            .into_iter()
            .map(Recompute)
            .chain([Retain(8)])
            .collect();
        assert_eq!(runs, expected);
        let (_, runs) = dealt_of(&layout, "uniform:1", 0);
        assert_eq!(
            runs[1..3],
            [Recompute(1..4), Recompute(4..7)],
            "sums are repeated"
        );
    }

    #[test]
    fn no_piece_crosses_the_first_trainable_segment() {
        let (pieces, _) = dealt("retain", 2);
        assert_eq!(pieces, [0..1, 1..2, 2..4, 4..7, 7..8]);
    }
}
