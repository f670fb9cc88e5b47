//! What carries messages between neighbouring stages.
//!
//! A [`link`] is one direction between two stages: an outlet at the one that sends, an inlet at
//! the one that receives. Both can be asked without waiting, because a stage that would wait has
//! better things to do.
//!
//! - [`mailbox`] is the link within a process, as fast as memory;
//! - [`emulated`] decorates any link with a bandwidth and a latency, so that what a slow wire does
//!   to a pipeline can be seen on one machine;
//! - [`ports`] are all ends of links that one stage has.
//!
//! Nothing here computes, and nothing here knows what a message means.

pub(crate) mod emulated;
pub(crate) mod link;
pub(crate) mod mailbox;
pub(crate) mod ports;
pub(crate) mod speed;

#[cfg(test)]
mod tests;
