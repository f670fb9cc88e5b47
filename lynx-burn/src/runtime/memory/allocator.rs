//! A global allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Allocations of at least this size count as tensors in a thread's net bytes. Below it lie the
/// nodes of autodiff's graph and other small change, whose number is not the model's.
pub const TENSOR_BYTES: usize = 4096;

static TRACKING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// Tensor bytes that this thread allocated, less those that it freed.
    static NET: Cell<i64> = const { Cell::new(0) };
}

/// An allocator, by default the system's, that counts live and peak bytes of the process and the net
/// bytes of each thread.
///
/// ```
/// use lynx_burn::memory::TrackingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();
/// ```
///
/// A training step frees large blocks and asks for the same again. Allocators that give them back to the
/// kernel in between, glibc's among them, have it map and clear every page anew: a tenth to a third of
/// a small GPT's step on a CPU. One that keeps them for a while, as `mimalloc` does, goes
/// [`around`](Self::around) in its place.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrackingAllocator<A = System> {
    inner: A,
}

impl TrackingAllocator {
    /// Counts what the system's allocator hands out.
    #[must_use]
    pub const fn new() -> Self {
        Self::around(System)
    }
}

impl<A> TrackingAllocator<A> {
    /// Counts what another allocator hands out.
    #[must_use]
    pub const fn around(inner: A) -> Self {
        Self { inner }
    }

    fn count(change: i64) {
        TRACKING.store(true, Ordering::Relaxed);
        let live = LIVE.fetch_add(change, Ordering::Relaxed) + change;
        if change > 0 {
            PEAK.fetch_max(live, Ordering::Relaxed);
        }
        if change.unsigned_abs() >= TENSOR_BYTES as u64 {
            // A thread that is ending frees its last blocks without its counter.
            let _ = NET.try_with(|net| net.set(net.get() + change));
        }
    }
}

// SAFETY: every call goes to the inner allocator unchanged; counting allocates nothing (the thread-local
// is const-initialised and has no destructor).
unsafe impl<A: GlobalAlloc> GlobalAlloc for TrackingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the inner allocator's.
        let block = unsafe { self.inner.alloc(layout) };
        if !block.is_null() {
            Self::count(layout.size() as i64);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the inner allocator's.
        let block = unsafe { self.inner.alloc_zeroed(layout) };
        if !block.is_null() {
            Self::count(layout.size() as i64);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the inner allocator's.
        unsafe { self.inner.dealloc(block, layout) };
        Self::count(-(layout.size() as i64));
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's contract is the inner allocator's.
        let moved = unsafe { self.inner.realloc(block, layout, size) };
        if !moved.is_null() {
            // As a free and an allocation, so that the size threshold holds for each.
            Self::count(-(layout.size() as i64));
            Self::count(size as i64);
        }
        moved
    }
}

/// Whether [`TrackingAllocator`] is this program's global allocator.
pub fn is_tracking() -> bool {
    TRACKING.load(Ordering::Relaxed)
}

/// Bytes that the process holds now, or 0 without [`TrackingAllocator`].
pub fn live_bytes() -> u64 {
    LIVE.load(Ordering::Relaxed).max(0) as u64
}

/// The most bytes the process held since the last [`reset_peak`], or 0 without
/// [`TrackingAllocator`].
pub fn peak_bytes() -> u64 {
    PEAK.load(Ordering::Relaxed).max(0) as u64
}

/// Begins a new peak at the bytes held now.
pub fn reset_peak() {
    PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Tensor bytes that this thread allocated, less those that it freed.
pub(crate) fn thread_net_bytes() -> i64 {
    NET.try_with(Cell::get).unwrap_or(0)
}
