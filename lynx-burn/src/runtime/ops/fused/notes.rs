//! What a first forward leaves for its recompute: statistics that would otherwise be found again.
//!
//! A layer norm's mean and deviation, attention's log-sum-exps and a loss are small beside the tensors
//! that they were found in, and finding them is a good part of a forward. So a forward whose tape is not
//! kept may [`write`] them down, and the recompute [`read`]s them: it costs less, and has the same bits.
//!
//! Notes are in the order of operations, which is the same both times, as a recompute repeats a
//! forward on the same thread from beginning to end. What another operation noted, or of another shape
//! or type, is not used. Operations find out by themselves whether anybody listens: nothing is passed through the model.

use std::any::Any;
use std::cell::RefCell;

use burn::backend::TensorMetadata;
use burn::tensor::Shape;

/// What the operations of one forward noted.
#[derive(Default)]
pub(crate) struct Notes {
    /// In the order in which they were written.
    notes: Vec<Note>,
}

struct Note {
    operation: &'static str,
    /// Of the operation's input.
    shape: Shape,
    /// Of each tensor.
    bytes: Vec<u64>,
    tensors: Box<dyn Any + Send>,
}

impl Notes {
    /// Bytes of all tensors that have at least `smallest`.
    pub(crate) fn bytes_from(&self, smallest: u64) -> u64 {
        let all = self.notes.iter().flat_map(|note| &note.bytes);
        all.filter(|&&bytes| bytes >= smallest).sum()
    }
}

/// What operations on this thread do with notes.
#[derive(Default)]
enum Desk {
    /// Nothing.
    #[default]
    Closed,
    Writing(Notes),
    Reading(std::vec::IntoIter<Note>),
}

thread_local! {
    static DESK: RefCell<Desk> = const { RefCell::new(Desk::Closed) };
}

/// The desk as it was, which a scope puts back, even if it ends in a panic.
struct Before(Option<Desk>);

impl Before {
    fn open(desk: Desk) -> Self {
        Self(Some(DESK.replace(desk)))
    }

    /// Ends the scope; what it left.
    fn close(mut self) -> Desk {
        DESK.replace(self.0.take().unwrap_or_default())
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            DESK.set(before);
        }
    }
}

/// Runs a forward whose operations leave notes.
pub(crate) fn write<R>(forward: impl FnOnce() -> R) -> (R, Notes) {
    let before = Before::open(Desk::Writing(Notes::default()));
    let result = forward();
    match before.close() {
        Desk::Writing(notes) => (result, notes),
        _ => (result, Notes::default()),
    }
}

/// Runs the same forward once more, whose operations find the notes.
pub(crate) fn read<R>(notes: Notes, forward: impl FnOnce() -> R) -> R {
    let before = Before::open(Desk::Reading(notes.notes.into_iter()));
    let result = forward();
    before.close();
    result
}

/// The statistics of an operation on `input`: as they were noted, with nothing else, or as `compute`
/// finds them, with the result that it finds on the way.
pub(super) fn noted<const N: usize, T, R>(
    (operation, input): (&'static str, &T),
    compute: impl FnOnce() -> (R, [T; N]),
) -> (Option<R>, [T; N])
where
    T: TensorMetadata + Clone + Send + 'static,
{
    if let Some(found) = find(operation, input) {
        return (None, found);
    }
    let (result, statistics) = compute();
    leave(operation, input, &statistics);
    (Some(result), statistics)
}

/// What the operation at this place noted, if it was the same.
fn find<const N: usize, T: TensorMetadata + 'static>(
    operation: &'static str,
    input: &T,
) -> Option<[T; N]> {
    let note = DESK.with_borrow_mut(|desk| match desk {
        Desk::Reading(notes) => notes.next(),
        Desk::Writing(_) | Desk::Closed => None,
    })?;
    let same = note.operation == operation && note.shape == input.shape();
    note.tensors
        .downcast()
        .ok()
        .filter(|_| same)
        .map(|tensors| *tensors)
}

fn leave<const N: usize, T>(operation: &'static str, input: &T, tensors: &[T; N])
where
    T: TensorMetadata + Clone + Send + 'static,
{
    DESK.with_borrow_mut(|desk| {
        if let Desk::Writing(notes) = desk {
            let bytes = |tensor: &T| (tensor.shape().num_elements() * tensor.dtype().size()) as u64;
            notes.notes.push(Note {
                operation,
                shape: input.shape(),
                bytes: tensors.iter().map(bytes).collect(),
                tensors: Box::new(tensors.clone()),
            });
        }
    });
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use burn::prelude::*;
    use burn::tensor::Distribution;

    use super::*;
    use crate::runtime::ops;

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let device = Device::flex().autodiff();
        Tensor::random(shape, Distribution::Normal(1.0, 2.0), &device)
    }

    fn norm(x: &Tensor<2>) -> Vec<u8> {
        let [_, width] = x.dims();
        let gamma = Tensor::ones([width], &x.device());
        let y = ops::layer_norm(x.clone(), gamma, None, 1e-5);
        y.into_data().as_bytes().to_vec()
    }

    fn loss(logits: &Tensor<2>) -> Vec<u8> {
        let [rows, _] = logits.dims();
        let targets = Tensor::zeros([rows], &logits.device());
        let loss = ops::cross_entropy(logits.clone(), targets);
        loss.into_data().as_bytes().to_vec()
    }

    fn attend(qkv: &Tensor<3>) -> Vec<u8> {
        let mixed = ops::causal_attention(qkv.clone(), 2, None);
        mixed.into_data().as_bytes().to_vec()
    }

    /// Other input of the same shape shows whether notes are used: with them it comes out wrong.
    #[test]
    fn a_recompute_uses_what_its_forward_noted_and_has_the_same_bits() {
        let (x, other) = (random([5, 8]), random([5, 8]));
        let (qkv, other_qkv) = (random([2, 7, 24]), random([2, 7, 24]));
        let run = |x: &Tensor<2>, qkv: &Tensor<3>| [norm(x), attend(qkv), loss(x), norm(x)];
        let fresh = run(&x, &qkv);
        let (first, notes) = write(|| run(&x, &qkv));
        assert_eq!(first, fresh);
        assert_eq!(read(notes, || run(&x, &qkv)), fresh);
        let (_, notes) = write(|| run(&x, &qkv));
        let wrong = read(notes, || run(&other, &other_qkv));
        for (wrong, right) in wrong.iter().zip(run(&other, &other_qkv)) {
            assert_ne!(*wrong, right);
        }
        // A loss is noted itself.
        assert_eq!(wrong[2], fresh[2]);
    }

    #[test]
    fn gradients_of_a_recompute_have_the_bits_of_the_forwards() {
        let device = Device::flex().autodiff();
        let gradient = |notes: Notes| {
            let qkv = Tensor::<3>::ones([2, 5, 24], &device)
                .cumsum(1)
                .require_grad();
            let y = read(notes, || {
                let y = ops::causal_attention(qkv.clone().div_scalar(3.0), 2, None);
                ops::layer_norm(y, Tensor::ones([8], &device), None, 1e-5)
            });
            let gradients = y.square().sum().backward();
            qkv.grad(&gradients).expect("a gradient").into_data()
        };
        let (_, notes) = write(|| {
            let qkv = Tensor::<3>::ones([2, 5, 24], &device).cumsum(1);
            let y = ops::causal_attention(qkv.div_scalar(3.0), 2, None);
            ops::layer_norm(y, Tensor::ones([8], &device), None, 1e-5)
        });
        assert_eq!(notes.notes.len(), 2);
        let (found, expected) = (gradient(notes), gradient(Notes::default()));
        assert_eq!(found.as_bytes(), expected.as_bytes());
    }

    #[test]
    fn notes_of_another_shape_or_operation_are_not_used() {
        let (x, wide) = (random([5, 8]), random([5, 9]));
        let (_, notes) = write(|| norm(&x));
        assert_eq!(read(notes, || norm(&wide)), norm(&wide));
        // Two statistics of a loss, as of a norm.
        let (_, notes) = write(|| loss(&x));
        assert_eq!(read(notes, || norm(&x)), norm(&x));
        // More operations than there are notes.
        let (_, notes) = write(|| norm(&x));
        let other = random([5, 8]);
        let (_, second) = read(notes, || (norm(&x), norm(&other)));
        assert_eq!(second, norm(&other));
    }

    #[test]
    fn bytes_are_those_of_the_tensors() {
        let (_, notes) = write(|| (norm(&random([6, 4])), attend(&random([2, 3, 24]))));
        // Two of 6 rows; 2 windows, 2 heads, 3 positions.
        assert_eq!(notes.bytes_from(0), 2 * 24 + 48);
        assert_eq!(notes.bytes_from(25), 48);
    }

    #[test]
    fn outside_of_a_scope_nothing_is_noted_and_a_panic_ends_one() {
        let x = random([5, 8]);
        let (_, notes) = write(|| norm(&x));
        let other = random([5, 8]);
        let expected = norm(&other);
        let scope = AssertUnwindSafe(|| read::<()>(notes, || panic!("in the middle")));
        assert!(catch_unwind(scope).is_err());
        assert_eq!(norm(&other), expected);
        // A scope within a scope leaves the outer one as it was.
        let ((), notes) = write(|| {
            norm(&x);
            read(Notes::default(), || norm(&x));
            norm(&other);
        });
        assert_eq!(notes.notes.len(), 2);
    }
}
