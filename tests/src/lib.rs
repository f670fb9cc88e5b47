//! What the tests of lynx-burn share.
//!
//! - [`oracle`] is the thing everything is compared with: the uncut model under plain Burn
//!   autodiff, micro-batches in ascending order;
//! - [`chains`] are small models with every feature that a chain may have;
//! - [`predicted`] is what a plan made from measured bytes promises;
//! - [`watchdog`] ends a test that hangs.

pub mod chains;
pub mod oracle;
pub mod predicted;
pub mod watchdog;
