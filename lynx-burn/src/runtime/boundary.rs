//! What passes from one segment to the next.
//!
//! A boundary is any type of the user's that can show its tensors to a [`TensorMap`]. That one
//! ability serves everything the runtime does with a boundary: cut it from a tape, make it the
//! entry of the next one, move it to another device, count its bytes.
//!
//! Float tensors carry a gradient back. Integer and boolean tensors ride along without one, and so
//! does a float tensor wrapped in [`Constant`]: an additive attention mask, say. Leaving the
//! wrapper out is correct too, it only costs the work of a gradient that nobody reads.
//!
//! Where ranks share a chain, some tensors are parts: a tensor wrapped in [`Summed`] is summed over
//! the ranks on its way to the next segment, and its gradient on the way back. All others must be
//! the same on every rank, or be each rank's own business.

use burn::prelude::*;

/// The tensors that one segment hands to the next.
///
/// # Example
///
/// ```
/// use burn::prelude::*;
/// use lynx_burn::{Boundary, TensorMap};
///
/// #[derive(Clone)]
/// struct Activations {
///     /// `[batch, seq, d_model]`
///     hidden: Tensor<3>,
///     /// `[batch, seq]`, true where a token is padding.
///     padding: Tensor<2, Bool>,
/// }
///
/// impl Boundary for Activations {
///     fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
///         Self {
///             hidden: self.hidden.map_tensors(map),
///             padding: self.padding.map_tensors(map),
///         }
///     }
/// }
/// ```
pub trait Boundary: Clone + Send + 'static {
    /// Shows every tensor to `map`, always in the same order, and keeps what it returns.
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self;
}

/// Something done to each tensor of a [`Boundary`]. The defaults leave a tensor as it is.
pub trait TensorMap {
    /// A float tensor that has a gradient.
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor
    }

    /// A float tensor that has a gradient and is summed over the ranks. Otherwise like any other.
    fn summed<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.float(tensor)
    }

    /// A float tensor that has none.
    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor
    }

    /// An integer tensor.
    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor
    }

    /// A boolean tensor.
    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        tensor
    }
}

/// A float tensor that rides along without a gradient.
#[derive(Clone, Debug)]
pub struct Constant<const D: usize>(pub Tensor<D>);

/// A float tensor of which each rank makes a part: the next segment gets the sum of all ranks'.
///
/// Only behind a segment that says so ([`Segment::summed`]).
///
/// [`Segment::summed`]: crate::plan::layout::Segment::summed
#[derive(Clone, Debug)]
pub struct Summed<const D: usize>(pub Tensor<D>);

impl<const D: usize> Boundary for Summed<D> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        Self(map.summed(self.0))
    }
}

impl<const D: usize> Boundary for Tensor<D> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        map.float(self)
    }
}

impl<const D: usize> Boundary for Constant<D> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        Self(map.constant(self.0))
    }
}

impl<const D: usize> Boundary for Tensor<D, Int> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        map.int(self)
    }
}

impl<const D: usize> Boundary for Tensor<D, Bool> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        map.bool(self)
    }
}

impl<T: Boundary> Boundary for Option<T> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        self.map(|inner| inner.map_tensors(map))
    }
}

impl<T: Boundary> Boundary for Vec<T> {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        self.into_iter().map(|item| item.map_tensors(map)).collect()
    }
}

macro_rules! tuple {
    ($($name:ident),*) => {
        impl<$($name: Boundary),*> Boundary for ($($name,)*) {
            #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
            fn map_tensors<Map: TensorMap>(self, map: &mut Map) -> Self {
                let ($($name,)*) = self;
                ($($name.map_tensors(map),)*)
            }
        }
    };
}
tuple!();
tuple!(A);
tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);
tuple!(A, B, C, D, E);
tuple!(A, B, C, D, E, F);

/// Moves every tensor to a device.
pub(crate) struct ToDevice<'a>(pub(crate) &'a Device);

impl TensorMap for ToDevice<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.to_device(self.0)
    }

    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.to_device(self.0)
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor.to_device(self.0)
    }

    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        tensor.to_device(self.0)
    }
}

/// Takes every tensor out of autodiff: a boundary at rest belongs to no tape.
pub(crate) struct Lower;

impl TensorMap for Lower {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
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

/// Shapes and bytes of a boundary's tensors, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) dims: Vec<Vec<usize>>,
    sizes: Vec<u64>,
}

impl Signature {
    pub(crate) fn of<T: Boundary>(boundary: &T) -> Self {
        let mut signature = Self::default();
        let _ = boundary.clone().map_tensors(&mut signature);
        signature
    }

    /// Bytes of the tensors that have at least `smallest`.
    pub(crate) fn bytes_from(&self, smallest: u64) -> i64 {
        self.sizes
            .iter()
            .filter(|&&size| size >= smallest)
            .sum::<u64>() as i64
    }

    /// Bytes of all tensors.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    fn push(&mut self, dims: &[usize], element_bytes: usize) {
        self.sizes
            .push((dims.iter().product::<usize>() * element_bytes) as u64);
        self.dims.push(dims.to_vec());
    }
}

impl TensorMap for Signature {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.push(&tensor.dims(), tensor.dtype().size());
        tensor
    }

    fn constant<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.float(tensor)
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        self.push(&tensor.dims(), tensor.dtype().size());
        tensor
    }

    fn bool<const D: usize>(&mut self, tensor: Tensor<D, Bool>) -> Tensor<D, Bool> {
        self.push(&tensor.dims(), tensor.dtype().size());
        tensor
    }
}
