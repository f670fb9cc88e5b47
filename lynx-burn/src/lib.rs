//! Pipeline training for Burn under a memory budget.
#![warn(missing_docs)]

pub mod ids;
pub mod units;
