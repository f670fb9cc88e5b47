//! What the tests of lynx-burn share.
//!
//! - [`oracle`] is the thing everything is compared with: the uncut model under plain Burn
//!   autodiff, micro-batches in ascending order;
//! - [`chains`] are small models with every feature that a chain may have;
//! - [`gpts`] are small ones of the example's model;
//! - [`overlap`] is what tests of recompute in windows start from;
//! - [`predicted`] is what a plan made from measured bytes promises;
//! - [`saves`] is what saves are compared by;
//! - [`shares`] is one that ranks can share, and that can go wrong on one of them;
//! - [`watchdog`] ends a test that hangs, keeps apart those that would see each other, and counts
//!   threads.

pub mod chains;
pub mod gpts;
pub mod oracle;
pub mod overlap;
pub mod predicted;
pub mod saves;
pub mod shares;
pub mod watchdog;
