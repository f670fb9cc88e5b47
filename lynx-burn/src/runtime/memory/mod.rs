//! What memory a run really holds.
//!
//! Burn does not say how many bytes a tape keeps, and no backend reports a peak. So retained bytes
//! are *read* where memory is allocated, around each action, and booked by a ledger:
//!
//! - on a CPU, a global allocator that counts ([`TrackingAllocator`]), installed by one line in
//!   the program;
//! - on a device with memory pools, the pool's bytes in use;
//! - without either, tapes cannot be seen and the ledger says so.

mod allocator;
pub(crate) mod ledger;
mod meter;

pub use allocator::{
    TENSOR_BYTES, TrackingAllocator, is_tracking, live_bytes, peak_bytes, reset_peak,
};
pub(crate) use meter::Meter;
