//! Gradients whose rank is not in their type.
//!
//! A boundary's float tensors have different ranks, and so have a stage's parameters; the places
//! that carry their gradients around do not know them.

use std::any::Any;
use std::fmt;

use burn::backend::autodiff::ops::NodeGuard;
use burn::prelude::*;

use super::boundary::{Boundary, TensorMap};
use super::ops;

/// A gradient of any rank, outside autodiff.
pub(crate) struct Gradient(Box<dyn Erased>);

trait Erased: Send {
    fn dims(&self) -> Vec<usize>;
    fn bytes(&self) -> u64;
    fn data(&self) -> TensorData;
    fn replaced(&self, data: TensorData) -> Gradient;
    fn moved_to(self: Box<Self>, device: &Device) -> Gradient;
    fn plus(self: Box<Self>, other: Gradient) -> Gradient;
    fn seed(self: Box<Self>, token: Tensor<1>, place: NodeGuard) -> Tensor<1>;
    fn scaled(self: Box<Self>, factor: f64) -> Gradient;
    fn square_sum(&self) -> Tensor<1>;
    fn zeros(&self) -> Gradient;
    #[cfg(feature = "cuda")]
    fn all_reduce(self: Box<Self>, devices: &[Device]) -> PendingSum;
    fn copy(&self) -> Gradient;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<const D: usize> Erased for Tensor<D> {
    fn dims(&self) -> Vec<usize> {
        Tensor::dims(self).to_vec()
    }

    fn bytes(&self) -> u64 {
        (self.shape().num_elements() * self.dtype().size()) as u64
    }

    fn data(&self) -> TensorData {
        self.to_data()
    }

    fn replaced(&self, data: TensorData) -> Gradient {
        Gradient::new(Self::from_data(data, (&self.device(), self.dtype())))
    }

    fn moved_to(self: Box<Self>, device: &Device) -> Gradient {
        Gradient::new(Tensor::to_device(*self, device))
    }

    fn plus(self: Box<Self>, other: Gradient) -> Gradient {
        match other.take::<D>() {
            Some(other) => {
                let other = Tensor::to_device(other, &self.device());
                Gradient::new(self.add(other))
            }
            None => Gradient(self),
        }
    }

    fn seed(self: Box<Self>, token: Tensor<1>, place: NodeGuard) -> Tensor<1> {
        ops::seed(token, place, self.autodiff())
    }

    fn scaled(self: Box<Self>, factor: f64) -> Gradient {
        Gradient::new(self.mul_scalar(factor))
    }

    fn square_sum(&self) -> Tensor<1> {
        self.clone().square().sum()
    }

    fn zeros(&self) -> Gradient {
        Gradient::new(self.zeros_like())
    }

    #[cfg(feature = "cuda")]
    fn all_reduce(self: Box<Self>, devices: &[Device]) -> PendingSum {
        use burn::tensor::distributed::{ReduceOperation, all_reduce};
        let sum = all_reduce(*self, ReduceOperation::Sum, devices.to_vec());
        PendingSum(Box::new(move || Gradient::new(sum.resolve())))
    }

    fn copy(&self) -> Gradient {
        Gradient::new(self.clone())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Gradient {
    pub(crate) fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        Self(Box::new(tensor))
    }

    pub(crate) fn dims(&self) -> Vec<usize> {
        self.0.dims()
    }

    /// Bytes of its elements.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    pub(crate) fn data(&self) -> TensorData {
        self.0.data()
    }

    /// A tensor of the same rank and type on the same device, with other values.
    pub(crate) fn replaced(&self, data: TensorData) -> Self {
        self.0.replaced(data)
    }

    pub(crate) fn moved_to(self, device: &Device) -> Self {
        self.0.moved_to(device)
    }

    /// `self + other` on the device of `self`. Both are gradients of one parameter, whose shapes
    /// the trainer has compared.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.0.plus(other)
    }

    /// `self * factor`.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        self.0.scaled(factor)
    }

    /// The sum of squares, shape `[1]`.
    pub(crate) fn square_sum(&self) -> Tensor<1> {
        self.0.square_sum()
    }

    /// Zeros of the same shape and type on the same device.
    pub(crate) fn zeros(&self) -> Self {
        self.0.zeros()
    }

    /// Starts the sum over the devices, each of which brings a tensor of this shape.
    #[cfg(feature = "cuda")]
    pub(crate) fn all_reduce(self, devices: &[Device]) -> PendingSum {
        self.0.all_reduce(devices)
    }

    /// The tensor, or nothing if its rank is not `D`.
    pub(crate) fn take<const D: usize>(self) -> Option<Tensor<D>> {
        self.0.into_any().downcast().ok().map(|tensor| *tensor)
    }

    /// See [`ops::seed`].
    pub(crate) fn seed(self, token: Tensor<1>, place: NodeGuard) -> Tensor<1> {
        self.0.seed(token, place)
    }
}

/// A gradient of ones for every float tensor of a boundary that has one.
pub(crate) fn ones<B: Boundary>(boundary: &B) -> Vec<Option<Gradient>> {
    struct Ones(Vec<Option<Gradient>>);

    impl TensorMap for Ones {
        fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
            self.0.push(Some(Gradient::new(tensor.ones_like())));
            tensor
        }
    }

    let mut ones = Ones(Vec::new());
    let _ = boundary.clone().map_tensors(&mut ones);
    ones.0
}

/// A sum that devices are at.
#[cfg(feature = "cuda")]
pub(crate) struct PendingSum(Box<dyn FnOnce() -> Gradient + Send>);

#[cfg(feature = "cuda")]
impl PendingSum {
    /// The sum; what uses it waits for it on the device.
    pub(crate) fn resolve(self) -> Gradient {
        (self.0)()
    }
}

impl Clone for Gradient {
    fn clone(&self) -> Self {
        self.0.copy()
    }
}

impl fmt::Debug for Gradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gradient{:?}", self.dims())
    }
}
