//! Ends tests that hang, keeps apart those that would see each other, and counts threads that should
//! have ended.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `test` as [`within`] five minutes, and no other of its process that is run so meanwhile: for
/// tests that read the clock, or what is counted of the whole process.
///
/// # Panics
///
/// As [`within`].
pub fn alone<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    within(Duration::from_secs(300), test)
}

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

/// Threads of this process's pipelines that still run.
///
/// # Panics
///
/// Where the system does not tell them.
pub fn stage_threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("the threads of this process")
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("lynx-stage"))
        .count()
}
