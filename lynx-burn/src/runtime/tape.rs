//! The tape of one segment of one micro-batch, or of neighbours that run as one.
//!
//! Recording runs the segments on fresh leaves, between an entry and an exit of its own (see
//! [`ops`]), so a tape shares no autodiff graph with any other: it can be consumed in any order,
//! on any thread, and dropping it drops everything it kept.

use burn::backend::autodiff::ops::NodeGuard;
use burn::module::ParamId;
use burn::prelude::*;

use super::boundary::{Boundary, TensorMap};
use super::gradient::Gradient;
use super::ops;
use super::parameters::{self, Leaf};
use super::parcel::{FloatEntry, Parcel};

/// What autodiff keeps for one micro-batch, and how to start and end a backward over it.
pub(crate) struct Tape {
    /// Through them the parameters' gradients are found. Not the module: its skeleton would be
    /// kept once per tape.
    leaves: Vec<(ParamId, Box<dyn Leaf>)>,
    /// Through them the input's gradients are found.
    anchors: Vec<Option<Box<dyn Leaf>>>,
    exits: Vec<Exit>,
    device: Device,
    consumed: bool,
}

/// One float tensor of the output.
struct Exit {
    /// Its place on the tape, for a join and a seed; nothing if no gradient can flow into it.
    places: Option<[NodeGuard; 2]>,
    dims: Vec<usize>,
}

/// What a backward over one tape yields.
pub(crate) struct Pulled {
    /// Of the parameters.
    pub(crate) parameters: Vec<(ParamId, Gradient)>,
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

impl Tape {
    /// Runs `forward` over `input` on a tape.
    ///
    /// `module` is the segments' with parameters that no other tape uses. `input` and the
    /// returned output belong to no tape. The input's gradient is collected if `track_input`.
    pub(crate) fn record<M: Module, I: Boundary, O: Boundary>(
        module: &M,
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
        let output = forward(module, input);
        let mut exit = Leaving(Vec::new());
        let output = output.map_tensors(&mut exit);
        let tape = Self {
            leaves: parameters::leaves(module),
            device: device.clone(),
            anchors: entry.anchors,
            exits: exit.0,
            consumed: false,
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
        let mut seeds = Vec::new();
        let mut token = Tensor::<1>::zeros([1], &self.device.clone().autodiff());
        for (index, (gradient, exit)) in gradients.into_iter().zip(self.exits.drain(..)).enumerate()
        {
            let (Some(gradient), Some([deep, place])) = (gradient, exit.places) else {
                continue;
            };
            if gradient.dims() != exit.dims {
                return Err(GradientMismatch::Shape {
                    index,
                    expected: exit.dims,
                    found: gradient.dims(),
                });
            }
            token = ops::join(token, deep);
            seeds.push((gradient, place));
        }
        let root = seeds.into_iter().fold(token, |token, (gradient, place)| {
            gradient.seed(token, place)
        });
        if !root.is_tracked() {
            // Nothing below depends on this micro-batch's loss.
            return Ok(Pulled {
                parameters: Vec::new(),
                input: self.anchors.iter().map(|_| None).collect(),
            });
        }
        let mut found = root.backward();
        drop(root);
        self.consumed = true;
        Ok(Pulled {
            input: self
                .anchors
                .iter()
                .map(|anchor| anchor.as_ref()?.take(&mut found))
                .collect(),
            parameters: self
                .leaves
                .iter()
                .filter_map(|(id, leaf)| Some((*id, leaf.take(&mut found)?)))
                .collect(),
        })
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        if !self.consumed {
            // First every reference into the graph, then the sweep that finds it unreachable.
            self.anchors.clear();
            self.exits.clear();
            self.leaves.clear();
            ops::sweep(&self.device);
        }
    }
}

/// Makes a boundary the entry of a tape.
struct Entry {
    track: bool,
    anchors: Vec<Option<Box<dyn Leaf>>>,
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

/// Cuts a boundary off its tape, keeping the place of each tracked output.
struct Leaving(Vec<Exit>);

impl TensorMap for Leaving {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let places = if tensor.is_tracked() {
            ops::hold(tensor.clone())
                .zip(ops::hold(tensor.clone()))
                .map(|(deep, place)| [deep, place])
        } else {
            None
        };
        self.0.push(Exit {
            places,
            dims: tensor.dims().to_vec(),
        });
        tensor.inner()
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
