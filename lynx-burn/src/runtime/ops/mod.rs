//! The few operations that Burn lacks for segment tapes, added through its extension API.
//!
//! Burn's `backward()` starts from a tensor of ones, ends at leaves, and both ends keep their
//! tensors alive. A segment in the middle of a chain needs three things more:
//!
//! - `enter`: the segment's input, as a place where its gradient is collected. A leaf would do,
//!   but a leaf must be kept to ask for its gradient, and with it the input's storage. Here a
//!   one-element anchor is kept instead.
//! - `hold`: the segment's output as its place on the tape alone, so that its storage can go as
//!   soon as the next segment has read it.
//! - `seed`: the start of a backward at such a place, with the gradient that came from the next
//!   segment. It registers that gradient as it is: same bytes as `(y * g).sum().backward()`,
//!   without the passes over memory. Autodiff runs the deepest operation first, so seeds begin
//!   below a `join` of all outputs that have a gradient: what later segments contribute to a
//!   tensor that passes through is then added first, as it is in an uncut model.
//!
//! With them a tape keeps what Burn's operations saved for backward and nothing else: exactly what
//! the same operations keep in an uncut model.
//!
//! The operations of a model that know what to keep are in `fused`.
//!
//! One trait, [`RecomputeOps`]; the backends' implementations are its defaults, which are written
//! in terms of any backend, and the gradients are in `autodiff.rs`.

use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::autodiff::ops::NodeGuard;
use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::prelude::*;

mod autodiff;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod cube;
#[cfg(feature = "flex")]
mod flex;
mod fused;
#[cfg(feature = "remote")]
mod remote;

pub(crate) use fused::notes;
pub use fused::{Drop, FusedOps, Kernels, Optional};
pub(crate) use fused::{
    bias_gelu, causal_attention, cross_entropy, dropout_add, layer_norm, linear,
};

/// Takes a place out of the dispatch to a backend.
pub type PlaceSlot = Arc<Mutex<Option<NodeGuard>>>;

/// What a backend must be able to do for segment tapes. The defaults serve every backend.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(any(feature = "wgpu", feature = "cuda")),
    Remote: cfg(feature = "remote"),
    Fusion: cfg(feature = "fusion"),
    Autodiff,
)]
pub trait RecomputeOps: Backend {
    /// `input` itself, its gradient collected under `anchor`.
    #[fusion(default)]
    fn segment_enter(input: FloatTensor<Self>, anchor: FloatTensor<Self>) -> FloatTensor<Self> {
        let _ = anchor;
        input
    }

    /// `output` itself; leaves its place on the tape in `place`.
    #[fusion(default)]
    fn segment_hold(output: FloatTensor<Self>, place: PlaceSlot) -> FloatTensor<Self> {
        let _ = place;
        output
    }

    /// `token`, deeper than `place`; its backward does nothing.
    #[fusion(default)]
    fn segment_join(token: FloatTensor<Self>, place: NodeGuard) -> FloatTensor<Self> {
        let _ = place;
        token
    }

    /// `token`, whose backward hands `gradient` to `place` and goes on as before.
    #[fusion(default)]
    fn segment_seed(
        token: FloatTensor<Self>,
        place: NodeGuard,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let _ = (place, gradient);
        token
    }
}

/// Makes `input` the entry of a tape; returns it and the anchor that collects its gradient.
pub(crate) fn enter<const D: usize>(input: Tensor<D>) -> (Tensor<D>, Tensor<D>) {
    let anchor = Tensor::<D>::zeros([1; D], (&input.device(), input.dtype())).require_grad();
    let entered = Tensor::from_dispatch(Dispatch::segment_enter(
        input.into_dispatch(),
        anchor.clone().into_dispatch(),
    ));
    (entered, anchor)
}

/// The place of `tensor` on its tape. It is the same for two tensors only if they are one.
///
/// Nothing outside autodiff.
pub(crate) fn hold<const D: usize>(tensor: Tensor<D>) -> Option<NodeGuard> {
    let slot = PlaceSlot::default();
    let _ = Dispatch::segment_hold(tensor.into_dispatch(), slot.clone());
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// `token`, one element, deeper than `place`.
pub(crate) fn join(token: Tensor<1>, place: NodeGuard) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::segment_join(token.into_dispatch(), place))
}

/// `token`, one element, whose backward starts from `gradient` at `place` too.
pub(crate) fn seed<const D: usize>(
    token: Tensor<1>,
    place: NodeGuard,
    gradient: Tensor<D>,
) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::segment_seed(
        token.into_dispatch(),
        place,
        gradient.into_dispatch(),
    ))
}

/// Has autodiff forget tapes that nobody can reach any more.
///
/// Burn frees the tape of a tracked forward whose output was dropped at the next `backward()`
/// anywhere. This is the smallest one.
pub(crate) fn sweep(device: &Device) {
    let device = device.clone().autodiff();
    let _ = Tensor::<1>::zeros([1], &device).require_grad().backward();
}
