//! Streams of a device: what is queued on one runs in order, what is queued on two may not.
//!
//! A device of CubeCL has many; every thread queues on one of its own. CubeCL (0.11.3) orders them by
//! tensors: before an operation reads a tensor that another stream *allocated*, it waits for that
//! stream. But a tensor that a third stream has changed in place since, as Burn does where nobody
//! else holds it, still counts as the first one's; who reads it then may read what was there before
//! (on lavapipe, 169 of 200 did: `tests/wgpu/streams.rs`). So wherever work goes over from one stream to another, a [`Fence`] is raised behind all that was
//! queued on the one and passed before anything is queued on the other. Its token is a tensor like
//! any other, new and of the right stream, so the order that CubeCL does give is enough.
//!
//! On a backend that computes at once there are no streams, and fences cost nothing.

use burn::prelude::*;
use burn::tensor::{DType, StreamId};

/// What was queued before on one stream; to be passed on others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence(Option<Tensor<1>>);

impl Fence {
    /// Behind everything that is queued on the current stream of the device.
    pub(crate) fn raise(device: &Device) -> Self {
        let token = || Tensor::<1>::zeros([1], (device, DType::F32));
        Self(has_streams(device).then(token))
    }

    /// What is queued from here on, on the current stream, runs after what the fence stands behind.
    pub(crate) fn pass(self) {
        if let Some(token) = self.0 {
            // Reading the token is what makes this stream wait.
            let _ = token.add_scalar(1.0);
        }
    }
}

/// Something that goes from one thread to another.
#[derive(Debug)]
pub(crate) struct Fenced<T> {
    value: T,
    fence: Fence,
}

impl<T> Fenced<T> {
    /// What the current thread has made on a device.
    pub(crate) fn new(value: T, device: &Device) -> Self {
        Self {
            value,
            fence: Fence::raise(device),
        }
    }

    /// What the thread that will open it has made.
    pub(crate) fn by_oneself(value: T) -> Self {
        let fence = Fence::default();
        Self { value, fence }
    }

    /// The same for the current thread.
    pub(crate) fn open(self) -> T {
        self.fence.pass();
        self.value
    }
}

/// Whether a device has streams that run beside each other.
fn has_streams(device: &Device) -> bool {
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    {
        use burn::backend::DispatchDevice;
        matches!(
            device.clone().inner().as_dispatch(),
            DispatchDevice::Cube(_)
        )
    }
    #[cfg(not(any(feature = "wgpu", feature = "cuda")))]
    {
        let _ = device;
        false
    }
}

/// A stream beside a thread's own, for what is done while that one waits.
#[derive(Debug)]
pub(crate) struct SideStream {
    id: StreamId,
    device: Device,
    /// What the thread's own stream has not waited for yet.
    open: Fence,
}

impl SideStream {
    /// Nothing if the device has no streams.
    pub(crate) fn of(device: &Device) -> Option<Self> {
        has_streams(device).then(|| Self {
            id: StreamId::allocate(),
            device: device.clone(),
            open: Fence::default(),
        })
    }

    /// Lets it wait for all that is queued on the current stream; what is queued there next runs
    /// beside it. Returns what queues work on it.
    pub(crate) fn fork(&self) -> StreamId {
        let fence = Fence::raise(&self.device);
        self.id.executes(|| fence.pass());
        self.id
    }

    /// Nothing more is queued on it for now.
    pub(crate) fn close(&mut self) {
        self.open = self.id.executes(|| Fence::raise(&self.device));
    }

    /// Lets the current stream wait for what was queued on it.
    pub(crate) fn join(&mut self) {
        std::mem::take(&mut self.open).pass();
    }
}
