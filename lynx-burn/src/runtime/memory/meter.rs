//! Reads the bytes that a stage's thread or device holds.

use burn::prelude::*;

use super::allocator;

/// Where a stage's memory can be read.
#[derive(Debug)]
pub(crate) enum Meter {
    /// The device's memory pool.
    Pool(Device),
    /// What the current thread allocated and freed.
    Thread,
    /// Nowhere.
    None,
}

impl Meter {
    pub(crate) fn of(device: &Device) -> Self {
        if device.memory_pool_usage().is_some() {
            Self::Pool(device.clone())
        } else if allocator::is_tracking() {
            Self::Thread
        } else {
            Self::None
        }
    }

    /// The smallest tensor that readings include.
    pub(crate) fn smallest(&self) -> u64 {
        match self {
            Self::Thread => allocator::TENSOR_BYTES as u64,
            Self::Pool(_) | Self::None => 0,
        }
    }

    /// A reading that means something only next to another one of the same thread.
    pub(crate) fn read(&self) -> Option<i64> {
        match self {
            Self::Pool(device) => device
                .memory_pool_usage()
                .map(|usage| usage.bytes_in_use as i64),
            Self::Thread => Some(allocator::thread_net_bytes()),
            Self::None => None,
        }
    }
}
