//! A boundary as a stage gets it: its values, and which of its tensors the sender keeps too.
//!
//! Stages on one device pass tensors without copying them. What a sender's tape keeps of a message it
//! has sent, such as a residual stream that was some norm's input, stays in memory when the receiver
//! lets go of it, and the receiver's book, which reads memory, has it until the receiver's backward.
//! Who tries out a stage without its neighbour must hold such tensors in the neighbour's stead.

use std::any::Any;

use burn::prelude::*;

use crate::runtime::boundary::{Boundary, TensorMap};
use crate::runtime::exec::run::Cotangents;
use crate::runtime::gradient::ones;
use crate::runtime::memory::Meter;
use crate::runtime::parcel::Parcel;

/// A boundary that can be sent again and again.
#[derive(Clone, Debug)]
pub(super) struct Sample<B> {
    values: Parcel<B>,
    /// Of every tensor, whether its sender keeps it. Nothing is known of those beyond the end.
    kept: Vec<bool>,
}

/// Tensors that are held and never looked at.
pub(super) type Kept = Vec<Box<dyn Any + Send>>;

impl<B: Boundary> Sample<B> {
    /// Of which nobody keeps anything.
    pub(super) fn of_nobody(values: Parcel<B>) -> Self {
        let kept = Vec::new();
        Self { values, kept }
    }

    /// Of a message on the thread of its sender, which nobody else holds but perhaps the sender: what
    /// the sender keeps does not become free with the message.
    pub(super) fn sent(message: Parcel<B>) -> Self {
        let values = message.clone().with_own_storage();
        let mut letting_go = LettingGo::default();
        let _ = message.map_tensors(&mut letting_go);
        let kept = letting_go.kept;
        Self { values, kept }
    }

    /// The same values in storage of their own.
    pub(super) fn copy(&self) -> Parcel<B> {
        self.values.clone().with_own_storage()
    }

    /// What the sender would keep of this copy.
    pub(super) fn kept_of(&self, copy: &Parcel<B>) -> Kept {
        let mut keeping = Keeping {
            which: self.kept.iter(),
            kept: Kept::new(),
        };
        let _ = copy.clone().map_tensors(&mut keeping);
        keeping.kept
    }

    /// A gradient of ones for every float tensor.
    pub(super) fn ones(&self) -> Cotangents {
        ones(&self.values)
    }
}

/// Drops tensors one by one and looks whether memory becomes free.
#[derive(Default)]
struct LettingGo {
    kept: Vec<bool>,
}

impl LettingGo {
    fn let_go<T>(&mut self, (tensor, bytes): (T, usize), device: &Device) {
        let meter = Meter::of(device);
        let before = meter.read();
        drop(tensor);
        let kept = match (before, meter.read()) {
            (Some(before), Some(after)) => before == after && bytes as u64 >= meter.smallest(),
            _ => false,
        };
        self.kept.push(kept);
    }
}

/// Every kind of tensor is treated alike, and replaced by one of a single element.
macro_rules! let_go {
    ($($method:ident: $kind:ty),*) => {
        $(fn $method<const D: usize>(&mut self, tensor: $kind) -> $kind {
            let device = tensor.device();
            let bytes = tensor.shape().num_elements() * tensor.dtype().size();
            let small = <$kind>::empty([1; D], &device);
            self.let_go((tensor, bytes), &device);
            small
        })*
    };
}

impl TensorMap for LettingGo {
    let_go!(float: Tensor<D>, constant: Tensor<D>, int: Tensor<D, Int>, bool: Tensor<D, Bool>);
}

/// Takes hold of some tensors.
struct Keeping<'a> {
    which: std::slice::Iter<'a, bool>,
    kept: Kept,
}

impl Keeping<'_> {
    fn look<T: Clone + Send + 'static>(&mut self, tensor: T) -> T {
        if self.which.next().is_some_and(|&kept| kept) {
            self.kept.push(Box::new(tensor.clone()));
        }
        tensor
    }
}

impl TensorMap for Keeping<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.look(tensor)
    }

    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.look(tensor)
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        self.look(tensor)
    }

    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        self.look(tensor)
    }
}
