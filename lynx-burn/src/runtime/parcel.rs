//! A boundary on its way, and which of its tensors are one and the same.
//!
//! A branch begins where one tensor is handed on twice: as what the next segment works on and as
//! what a later one will add. In an uncut model both are one tensor with one sum of gradients. If
//! a cut made them two, each would get a sum of its own, and adding those sums is not the same
//! addition, to the last bit. So a parcel remembers which tensors were one, and the next segment
//! enters them as one again.

use std::any::Any;

use burn::backend::autodiff::NodeId;
use burn::prelude::*;

use super::boundary::{Boundary, Lower, TensorMap};
use super::ops;

/// A boundary and, for each of its float tensors, the first one that is the same tensor.
#[derive(Clone, Debug)]
pub(crate) struct Parcel<B> {
    pub(crate) boundary: B,
    /// Empty if nothing is known, as of what comes from outside.
    first_same: Vec<usize>,
}

impl<B: Boundary> Boundary for Parcel<B> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        Self {
            boundary: self.boundary.map_tensors(map),
            first_same: self.first_same,
        }
    }
}

impl<B: Boundary> Parcel<B> {
    /// A boundary whose tensors count as different.
    pub(crate) fn from_outside(boundary: B) -> Self {
        Self {
            boundary,
            first_same: Vec::new(),
        }
    }

    /// A boundary that a segment has just made, its tensors still on autodiff.
    pub(crate) fn from_segment(boundary: B) -> Self {
        let mut identities = Identities(Vec::new());
        let boundary = boundary.map_tensors(&mut identities);
        let ids = identities.0;
        let first_same = ids
            .iter()
            .enumerate()
            .map(|(slot, id)| ids.iter().position(|other| other == id).unwrap_or(slot))
            .collect();
        Self {
            boundary,
            first_same,
        }
    }

    /// The float tensors at these places have become others: each is one of its own.
    pub(crate) fn part_with(&mut self, places: &[usize]) {
        for slot in 0..self.first_same.len() {
            if places.contains(&slot) || places.contains(&self.first_same[slot]) {
                self.first_same[slot] = slot;
            }
        }
    }

    /// Bytes of its tensors; what is one tensor counts once.
    pub(crate) fn bytes(&self) -> u64 {
        let mut weighing = Weighing {
            first_same: &self.first_same,
            floats: 0,
            bytes: 0,
        };
        let _ = self.boundary.clone().map_tensors(&mut weighing);
        weighing.bytes
    }

    /// The same values in storage that nobody else holds; what is one tensor stays one.
    ///
    /// Who wants to see what a segment keeps of its input must be able to let go of it.
    pub(crate) fn with_own_storage(self) -> Self {
        let first_same = self.first_same.clone();
        let boundary = self.map_tensors(&mut CopyRest).enter(&mut CopyFloats);
        Self {
            boundary: boundary.map_tensors(&mut Lower),
            first_same,
        }
    }

    /// Puts the boundary on autodiff: what is one tensor goes through `float` once.
    pub(crate) fn enter<F: FloatEntry>(self, entry: &mut F) -> B {
        let mut entering = Entering {
            entry,
            first_same: &self.first_same,
            entered: Vec::new(),
        };
        self.boundary.map_tensors(&mut entering)
    }
}

/// What happens to a float tensor as it enters a segment.
pub(crate) trait FloatEntry {
    /// The first time it is seen.
    fn first<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D>;

    /// It is the same as an earlier one, whose result is used.
    fn again(&mut self);
}

/// Entry without a tape.
///
/// On autodiff all the same: a segment's untracked forward must take the same code paths as its
/// tracked one, or recomputing would not give the same bits.
pub(crate) struct Untracked;

impl FloatEntry for Untracked {
    fn first<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.autodiff()
    }

    fn again(&mut self) {}
}

struct Entering<'a, F> {
    entry: &'a mut F,
    first_same: &'a [usize],
    entered: Vec<Box<dyn Any>>,
}

impl<F: FloatEntry> TensorMap for Entering<'_, F> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let slot = self.entered.len();
        let earlier = self
            .first_same
            .get(slot)
            .filter(|&&first| first < slot)
            .and_then(|&first| self.entered[first].downcast_ref::<Tensor<D>>())
            .cloned();
        let entered = match earlier {
            Some(earlier) => {
                self.entry.again();
                earlier
            }
            None => self.entry.first(tensor),
        };
        self.entered.push(Box::new(entered.clone()));
        entered
    }

    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.autodiff()
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor.autodiff()
    }

    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        tensor.autodiff()
    }
}

/// Copies every float tensor that has a gradient.
struct CopyFloats;

impl FloatEntry for CopyFloats {
    fn first<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        Tensor::from_data(tensor.to_data(), (&tensor.device(), tensor.dtype()))
    }

    fn again(&mut self) {}
}

/// Copies all other tensors.
struct CopyRest;

impl TensorMap for CopyRest {
    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        Tensor::from_data(tensor.to_data(), (&tensor.device(), tensor.dtype()))
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        Tensor::from_data(tensor.to_data(), (&tensor.device(), tensor.dtype()))
    }

    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        Tensor::from_data(tensor.to_data(), (&tensor.device(), tensor.dtype()))
    }
}

/// Adds up the bytes of different tensors.
struct Weighing<'a> {
    first_same: &'a [usize],
    floats: usize,
    bytes: u64,
}

impl Weighing<'_> {
    fn add(&mut self, elements: usize, element_bytes: usize) {
        self.bytes += (elements * element_bytes) as u64;
    }
}

impl TensorMap for Weighing<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let slot = self.floats;
        self.floats += 1;
        if self.first_same.get(slot).is_none_or(|&first| first == slot) {
            self.add(tensor.shape().num_elements(), tensor.dtype().size());
        }
        tensor
    }

    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.add(tensor.shape().num_elements(), tensor.dtype().size());
        tensor
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        self.add(tensor.shape().num_elements(), tensor.dtype().size());
        tensor
    }

    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        self.add(tensor.shape().num_elements(), tensor.dtype().size());
        tensor
    }
}

/// The identity of each float tensor.
struct Identities(Vec<Option<NodeId>>);

impl TensorMap for Identities {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.0
            .push(ops::hold(tensor.clone()).map(|place| place.id()));
        tensor
    }
}
