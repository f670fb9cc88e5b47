//! A process of its own in which the C library keeps the memory it was given.
//!
//! By default glibc hands large blocks back to the system as soon as they are free and asks for them
//! again a moment later. What that costs depends on the order in which everybody in the process takes
//! and frees memory, so strategies that take turns would disturb each other, each in its own way: here
//! by 10 % of a step.

use std::process::{Command, ExitStatus};

use super::BenchError;

/// Settings of glibc's allocator: nothing is handed back. Other C libraries do not know them.
const KEEP: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
    ("MALLOC_TRIM_THRESHOLD_", "17179869184"),
    ("MALLOC_TOP_PAD_", "16777216"),
];

/// Runs this program again with the same arguments in such a process; nothing if it is one.
pub(super) fn in_own_process() -> Result<Option<ExitStatus>, BenchError> {
    if KEEP
        .iter()
        .all(|(name, _)| std::env::var_os(name).is_some())
    {
        return Ok(None);
    }
    let again = || {
        Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .envs(KEEP)
            .status()
    };
    again().map(Some).map_err(BenchError::Again)
}
