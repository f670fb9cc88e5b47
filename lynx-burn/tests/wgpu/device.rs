//! The device, and what of lynx-burn it ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use burn::prelude::*;
use burn::tensor::DeviceKind;
use burn_cubecl::CubeDevice;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The default device of wgpu, or `None` and a message.
pub(crate) fn wgpu() -> Option<Device> {
    if CubeDevice::enumerate_all().is_empty() {
        assert!(
            std::env::var_os("LYNX_REQUIRE_DEVICE").is_none(),
            "no device found, but one is required here"
        );
        println!("skipped: wgpu finds no device on this machine");
        return None;
    }
    Some(Device::wgpu(DeviceKind::DefaultDevice))
}

/// What `run` returns, and how many operations lynx-burn composed of Burn's meanwhile because it had no
/// kernel: it says so where it does.
pub(crate) fn counting_composed<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let composed = Arc::new(AtomicUsize::new(0));
    let result = tracing::subscriber::with_default(Counter(composed.clone()), run);
    (result, composed.load(Ordering::Relaxed))
}

struct Counter(Arc<AtomicUsize>);

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lynx_burn") && metadata.fields().field("operation").is_some()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Runs a test of many threads on a thread of its own, and fails if it takes longer than this.
pub(crate) fn within(limit: Duration, test: impl FnOnce() + Send + 'static) {
    let (done, result) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match result.recv_timeout(limit) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
            panic!("the test still runs after {limit:?}")
        }
        _ => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
