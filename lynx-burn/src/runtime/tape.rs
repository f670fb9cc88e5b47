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
use super::stage::SummedPlaces;

/// What autodiff keeps for one micro-batch, and how to start and end a backward over it.
pub(crate) struct Tape {
    /// Through them the parameters' gradients are found. Not the module: its skeleton would be
    /// kept once per tape.
    leaves: Vec<(ParamId, Box<dyn Leaf>)>,
    /// Through them the input's gradients are found.
    anchors: Vec<Option<Box<dyn Leaf>>>,
    exits: Vec<Exit>,
    /// Which of the input's float tensors are sums over ranks: so are their gradients.
    sums: Vec<usize>,
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
    /// Which of those are this rank's parts of sums.
    pub(crate) sums: Vec<usize>,
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
        let sums = SummedPlaces::of(&input);
        let input = input.enter(&mut entry);
        let output = forward(module, input);
        let mut exit = Leaving(Vec::new());
        let output = output.map_tensors(&mut exit);
        let tape = Self {
            leaves: parameters::leaves(module),
            device: device.clone(),
            anchors: entry.anchors,
            exits: exit.0,
            sums,
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
                sums: std::mem::take(&mut self.sums),
            });
        }
        let mut found = root.backward();
        drop(root);
        self.consumed = true;
        Ok(Pulled {
            sums: std::mem::take(&mut self.sums),
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
            // While a panic unwinds, a second one would end the process; then the next backward
            // anywhere finds the tape instead.
            if !std::thread::panicking() {
                ops::sweep(&self.device);
            }
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

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::optim::GradientsParams;
    use burn::tensor::Distribution;

    use super::*;

    fn random<const D: usize>(dims: [usize; D]) -> Tensor<D> {
        Tensor::random(dims, Distribution::Uniform(-1.0, 1.0), &Device::flex())
    }

    fn linear() -> Linear {
        LinearConfig::new(4, 4).init(&Device::flex().autodiff())
    }

    fn record(
        layer: &Linear,
        input: &Tensor<2>,
        forward: impl FnOnce(&Linear, Tensor<2>) -> (Tensor<2>, Tensor<2>),
    ) -> Tape {
        let leaves = layer.valid().train();
        let input = Parcel::from_outside(input.clone());
        Tape::record(&leaves, &Device::flex(), input, true, forward).0
    }

    fn bytes(gradient: &Gradient) -> Vec<u8> {
        gradient.data().as_bytes().to_vec()
    }

    #[test]
    fn a_seeded_backward_gives_the_bytes_of_a_backward_from_the_weighted_sum() {
        let (layer, input, seed) = (linear(), random([3, 4]), random([3, 4]));
        let tape = record(&layer, &input, |layer, x| {
            (layer.forward(x.clone()).tanh(), x)
        });
        let pulled = tape
            .backward(vec![Some(Gradient::new(seed.clone())), None])
            .expect("it fits");

        let x = input.autodiff().require_grad();
        let weighted = layer.forward(x.clone()).tanh() * seed.autodiff();
        let mut expected = weighted.sum().backward();
        let found = pulled.input[0].as_ref().expect("a gradient");
        let wanted = x.grad_remove(&mut expected).expect("a gradient");
        assert_eq!(bytes(found), wanted.into_data().as_bytes());
        let expected = GradientsParams::from_grads(expected, &layer);
        assert_eq!(pulled.parameters.len(), 2);
        for (id, found) in &pulled.parameters {
            let wanted = match found.dims().len() {
                1 => expected.get::<1>(*id).map(Tensor::into_data),
                _ => expected.get::<2>(*id).map(Tensor::into_data),
            };
            assert_eq!(bytes(found), wanted.expect("a gradient").as_bytes());
        }
    }

    #[test]
    fn what_passes_through_hands_its_gradient_on() {
        let (layer, input, seed) = (linear(), random([3, 4]), random([3, 4]));
        let tape = record(&layer, &input, |layer, x| (layer.forward(x.clone()), x));
        let pulled = tape
            .backward(vec![None, Some(Gradient::new(seed.clone()))])
            .expect("it fits");
        let found = pulled.input[0].as_ref().expect("a gradient");
        assert_eq!(bytes(found), seed.into_data().as_bytes());
        assert!(pulled.parameters.is_empty(), "the layer had no part in it");
    }

    #[test]
    fn nothing_comes_of_no_gradient() {
        let (layer, input) = (linear(), random([3, 4]));
        let tape = record(&layer, &input, |layer, x| (layer.forward(x.clone()), x));
        let pulled = tape.backward(vec![None, None]).expect("it fits");
        assert!(pulled.parameters.is_empty() && pulled.input.iter().all(Option::is_none));
    }

    #[test]
    fn a_gradient_that_does_not_fit_is_refused_with_the_shapes() {
        let (layer, input) = (linear(), random([3, 4]));
        let record = || record(&layer, &input, |layer, x| (layer.forward(x.clone()), x));
        let error = record().backward(vec![None]).err();
        assert_eq!(
            error,
            Some(GradientMismatch::Count {
                expected: 2,
                found: 1
            })
        );
        let wrong = Gradient::new(random([3, 5]));
        let error = record().backward(vec![Some(wrong), None]).err();
        assert_eq!(
            error,
            Some(GradientMismatch::Shape {
                index: 0,
                expected: vec![3, 4],
                found: vec![3, 5]
            })
        );
    }
}
