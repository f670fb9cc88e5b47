//! The allocator of a training program on a CPU: one that counts, around one that keeps.
//!
//! A step frees large tensors and asks for the same sizes again. glibc gives them back to the kernel
//! in between, which maps and clears every page anew: a tenth to a third of a small GPT's step.
//! `mimalloc` can keep them; what the process holds then stays at the most it ever needed.

use libmimalloc_sys::{mi_option_set, mi_option_t};
use lynx_burn::memory::TrackingAllocator;
use mimalloc::MiMalloc;

/// Counts bytes, so that what each stage retains can be measured.
pub type Allocator = TrackingAllocator<MiMalloc>;

/// The allocator, for a `#[global_allocator]`.
#[must_use]
pub const fn new() -> Allocator {
    TrackingAllocator::around(MiMalloc)
}

/// `mi_option_purge_delay` of mimalloc's options, which the bindings do not name: milliseconds after
/// which freed pages go back to the kernel, negative for never.
const PURGE_DELAY: mi_option_t = 15;

/// Has the allocator keep pages that were freed.
pub fn keep_freed_pages() {
    // SAFETY: the function sets an entry of a table of numbers, takes any option and value, and may be
    // called at any time.
    unsafe { mi_option_set(PURGE_DELAY, -1) };
}
