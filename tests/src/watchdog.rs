//! Ends tests that hang.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs `test` on its own thread and fails if it takes longer than `limit`.
///
/// # Panics
///
/// If `test` panics or does not end in time.
pub fn within<R: Send + 'static>(limit: Duration, test: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(test());
    });
    match result.recv_timeout(limit) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("the test still runs after {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the thread ended without a result or a panic"),
        },
    }
}
