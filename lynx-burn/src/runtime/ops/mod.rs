//! The few operations that Burn lacks for segment tapes, added through its extension API.
//!
//! Burn's `backward()` starts from a tensor of ones, ends at leaves, and both ends keep their
//! tensors alive. A segment in the middle of a chain needs three things more:
//!
//! - [`enter`]: the segment's input, as a place where its gradient is collected. A leaf would do,
//!   but a leaf must be kept to ask for its gradient, and with it the input's storage. Here a
//!   one-element anchor is kept instead.
//! - [`leave`]: the segment's output reduced to a one-element stub that still leads to the tape,
//!   so that the output's storage can go as soon as the next segment has read it. Autodiff runs
//!   the deepest operation first, so a stub is placed after the *deepest* output ([`join`]): what
//!   later segments contribute to a tensor that passes through is then added first, as it is in
//!   an uncut model.
//! - [`seed`]: the stub again at backward time, with the gradient that came from the next
//!   segment. It registers that gradient as it is: same bytes as `(y * g).sum().backward()`,
//!   without the passes over memory.
//!
//! With them a tape keeps what Burn's operations saved for backward and nothing else: exactly what
//! the same operations keep in an uncut model.
//!
//! The fourth, [`dropout`], is an operation because its mask must not be saved either.
//!
//! One trait, [`RecomputeOps`]; the backends' implementations are its defaults, which are written
//! in terms of any backend, and the gradients are in `autodiff.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::backend::{Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use lynx_kernels::random::{KeepProbability, StreamKey, fill_dropout_mask};

mod autodiff;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "remote")]
mod remote;

/// What a backend must be able to do for segment tapes. The defaults serve every backend.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(any(feature = "wgpu", feature = "cuda")),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait RecomputeOps: Backend {
    /// `input` itself, its gradient collected under `anchor`.
    fn segment_enter(input: FloatTensor<Self>, anchor: FloatTensor<Self>) -> FloatTensor<Self> {
        let _ = anchor;
        input
    }

    /// A one-element tensor deeper than both.
    fn segment_join(output: FloatTensor<Self>, other: FloatTensor<Self>) -> FloatTensor<Self> {
        let _ = output;
        other
    }

    /// A one-element tensor, deeper than `after`, that leads to `output`'s tape.
    fn segment_leave(output: FloatTensor<Self>, after: FloatTensor<Self>) -> FloatTensor<Self> {
        let _ = output;
        after
    }

    /// A one-element tensor whose backward hands `gradient` to `stub` and goes on to `next`.
    fn segment_seed(
        stub: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        next: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let _ = (stub, gradient);
        next
    }

    /// `input` itself; stores in `id` what tells autodiff's tensors apart.
    fn segment_identity(input: FloatTensor<Self>, id: Arc<AtomicU64>) -> FloatTensor<Self> {
        let _ = id;
        input
    }

    /// `input` with elements dropped by the mask that `key` names.
    fn keyed_dropout(
        input: FloatTensor<Self>,
        key: StreamKey,
        keep: KeepProbability,
    ) -> FloatTensor<Self> {
        let mask = mask_like::<Self>(&input, key, keep);
        Self::float_mul(input, mask)
    }
}

/// The dropout mask of `input`, built on the host: the CubeCL twin of the generator comes with the
/// kernels.
fn mask_like<B: Backend>(
    input: &FloatTensor<B>,
    key: StreamKey,
    keep: KeepProbability,
) -> FloatTensor<B> {
    let shape = input.shape();
    let mut mask = vec![0f32; shape.num_elements()];
    fill_dropout_mask(key, keep, &mut mask);
    let data = TensorData::new(mask, shape);
    let data = match input.dtype() {
        DType::F32 => data,
        other => data.convert_dtype(other),
    };
    B::float_from_data(data, &input.device())
}

/// A number that two tensors on autodiff share only if they are the same tensor.
pub(crate) fn identity<const D: usize>(tensor: Tensor<D>) -> u64 {
    let id = Arc::new(AtomicU64::new(0));
    let _ = Dispatch::segment_identity(tensor.into_dispatch(), id.clone());
    id.load(Ordering::Relaxed)
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

/// A one-element tensor deeper in the tape than both `output` and `other`.
pub(crate) fn join<const D: usize>(output: Tensor<D>, other: Tensor<1>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::segment_join(
        output.into_dispatch(),
        other.into_dispatch(),
    ))
}

/// A stub that leads to `output`'s tape without keeping `output`, deeper than `after`.
pub(crate) fn leave<const D: usize>(output: Tensor<D>, after: Tensor<1>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::segment_leave(
        output.into_dispatch(),
        after.into_dispatch(),
    ))
}

/// A root whose backward starts from `gradient` at `stub`, after whatever `next` starts.
pub(crate) fn seed<const D: usize>(
    stub: Tensor<1>,
    gradient: Tensor<D>,
    next: Tensor<1>,
) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::segment_seed(
        stub.into_dispatch(),
        gradient.into_dispatch(),
        next.into_dispatch(),
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

/// Dropout whose mask is a function of `key`.
pub(crate) fn dropout<const D: usize>(
    input: Tensor<D>,
    key: StreamKey,
    keep: KeepProbability,
) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::keyed_dropout(input.into_dispatch(), key, keep))
}
