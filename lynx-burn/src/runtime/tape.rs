//! The tape of one segment of one micro-batch.
//!
//! Recording runs the segment on fresh leaves, between an entry and an exit of its own (see
//! [`ops`]), so a tape shares no autodiff graph with any other: it can be consumed in any order,
//! on any thread, and dropping it drops everything it kept.

use std::marker::PhantomData;

use burn::optim::GradientsParams;
use burn::prelude::*;
use burn::tensor::Gradients;

use super::boundary::{Boundary, TensorMap};
use super::gradient::Gradient;
use super::ops;
use super::parcel::{FloatEntry, Parcel};

/// What autodiff keeps for one segment of one micro-batch, and how to start and end a backward.
pub(crate) struct Tape<M, O> {
    /// The fresh leaves: through them the parameters' gradients are found. There until dropped.
    leaves: Option<M>,
    device: Device,
    anchors: Vec<Option<Box<dyn Anchor>>>,
    exits: Vec<Exit>,
    consumed: bool,
    output: PhantomData<fn() -> O>,
}

/// One float tensor of the output.
struct Exit {
    /// Nothing if no gradient can flow into it.
    stub: Option<Tensor<1>>,
    dims: Vec<usize>,
}

/// What a backward over one tape yields.
pub(crate) struct Pulled {
    /// Of the parameters.
    pub(crate) parameters: GradientsParams,
    /// Of the input's float tensors, in boundary order.
    pub(crate) input: Vec<Option<Gradient>>,
}

/// A gradient that does not belong to the output it came for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GradientMismatch {
    /// Another number of float tensors.
    #[error("{found} gradients for an output of {expected} float tensors")]
    Count {
        /// Float tensors of the output.
        expected: usize,
        /// Gradients that came.
        found: usize,
    },
    /// Another shape.
    #[error("gradient {index} has shape {found:?}, the output's tensor has {expected:?}")]
    Shape {
        /// Position among the float tensors.
        index: usize,
        /// Shape of the output's tensor.
        expected: Vec<usize>,
        /// Shape of the gradient.
        found: Vec<usize>,
    },
}

impl<M: Module, O: Boundary> Tape<M, O> {
    /// Runs `forward` over `input` on a tape.
    ///
    /// `leaves` is the segment's module with parameters that no other tape uses. `input` and the
    /// returned output belong to no tape. The input's gradient is collected if `track_input`.
    pub(crate) fn record<I: Boundary>(
        leaves: M,
        device: &Device,
        input: Parcel<I>,
        track_input: bool,
        forward: impl FnOnce(&M, I) -> O,
    ) -> (Self, O) {
        let mut entry = Entry {
            track: track_input,
            anchors: Vec::new(),
        };
        let input = input.enter(&mut entry);
        let output = forward(&leaves, input);
        let mut depth = Depth {
            deepest: Tensor::<1>::zeros([1], &device.clone().autodiff()),
        };
        let output = output.map_tensors(&mut depth);
        let mut exit = Leaving {
            after: depth.deepest,
            exits: Vec::new(),
        };
        let output = output.map_tensors(&mut exit);
        let tape = Self {
            leaves: Some(leaves),
            device: device.clone(),
            anchors: entry.anchors,
            exits: exit.exits,
            consumed: false,
            output: PhantomData,
        };
        (tape, output)
    }

    /// Pulls the output's gradients back to the parameters and the input, consuming the tape.
    ///
    /// # Errors
    ///
    /// If the gradients do not fit the output.
    pub(crate) fn backward(
        mut self,
        gradients: Vec<Option<Gradient>>,
    ) -> Result<Pulled, GradientMismatch> {
        if gradients.len() != self.exits.len() {
            return Err(GradientMismatch::Count {
                expected: self.exits.len(),
                found: gradients.len(),
            });
        }
        let mut root: Option<Tensor<1>> = None;
        for (index, (gradient, exit)) in gradients.into_iter().zip(self.exits.drain(..)).enumerate()
        {
            let (Some(gradient), Some(stub)) = (gradient, exit.stub) else {
                continue;
            };
            if gradient.dims() != exit.dims {
                return Err(GradientMismatch::Shape {
                    index,
                    expected: exit.dims,
                    found: gradient.dims(),
                });
            }
            let next = match root {
                Some(root) => root,
                None => Tensor::zeros([1], &self.device.clone().autodiff()),
            };
            root = Some(gradient.seed(stub, next));
        }
        let Some(root) = root else {
            // Nothing below depends on this micro-batch's loss.
            return Ok(Pulled {
                parameters: GradientsParams::new(),
                input: self.anchors.iter().map(|_| None).collect(),
            });
        };
        let mut found = root.backward();
        drop(root);
        self.consumed = true;
        Ok(Pulled {
            input: self
                .anchors
                .iter()
                .map(|anchor| anchor.as_ref()?.take(&mut found))
                .collect(),
            parameters: match &self.leaves {
                Some(leaves) => GradientsParams::from_module(&mut found, leaves),
                None => GradientsParams::new(),
            },
        })
    }
}

impl<M, O> Drop for Tape<M, O> {
    fn drop(&mut self) {
        if !self.consumed {
            // First every reference into the graph, then the sweep that finds it unreachable.
            self.anchors.clear();
            self.exits.clear();
            self.leaves = None;
            ops::sweep(&self.device);
        }
    }
}

/// Asks for an anchor's gradient, whatever its rank.
trait Anchor: Send {
    fn take(&self, gradients: &mut Gradients) -> Option<Gradient>;
}

impl<const D: usize> Anchor for Tensor<D> {
    fn take(&self, gradients: &mut Gradients) -> Option<Gradient> {
        self.grad_remove(gradients).map(Gradient::new)
    }
}

/// Makes a boundary the entry of a tape.
struct Entry {
    track: bool,
    anchors: Vec<Option<Box<dyn Anchor>>>,
}

impl FloatEntry for Entry {
    fn first<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let tensor = tensor.autodiff();
        if !self.track {
            self.anchors.push(None);
            return tensor;
        }
        let (entered, anchor) = ops::enter(tensor);
        self.anchors.push(Some(Box::new(anchor)));
        entered
    }

    fn again(&mut self) {
        // Its gradient is in the first one's sum.
        self.anchors.push(None);
    }
}

/// Finds a place deeper than every tracked output.
struct Depth {
    deepest: Tensor<1>,
}

impl TensorMap for Depth {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        if tensor.is_tracked() {
            self.deepest = ops::join(tensor.clone(), self.deepest.clone());
        }
        tensor
    }
}

/// Cuts a boundary off its tape, leaving a stub for each tracked output.
struct Leaving {
    after: Tensor<1>,
    exits: Vec<Exit>,
}

impl TensorMap for Leaving {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let dims = tensor.dims().to_vec();
        let plain = tensor.clone().inner();
        let stub = tensor
            .is_tracked()
            .then(|| ops::leave(tensor, self.after.clone()));
        self.exits.push(Exit { stub, dims });
        plain
    }

    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.inner()
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor.inner()
    }

    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        tensor.inner()
    }
}
