//! Recompute while a stage waits: nothing changes but when it happens.

mod exact;
mod memory;
mod planned;

use std::sync::Mutex;
use std::time::Duration;

use burn::prelude::*;
use lynx_burn::memory::TrackingAllocator;
use lynx_tests::watchdog::within;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator;

/// Tests that read counters of the whole process, or the clock, run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    within(Duration::from_secs(240), test)
}

fn device() -> Device {
    Device::flex().autodiff()
}
