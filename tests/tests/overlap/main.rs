//! Recompute while a stage waits: nothing changes but when it happens.

mod exact;
mod memory;
mod planned;

use burn::prelude::*;
use lynx_burn::memory::TrackingAllocator;
use lynx_tests::watchdog::alone;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

fn device() -> Device {
    Device::flex().autodiff()
}
