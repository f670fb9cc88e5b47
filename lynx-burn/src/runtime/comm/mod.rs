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
//! A [`collective`] is one worker's end of the group of ranks that share a stage, or of the replicas
//! of one, and can be asked without waiting too:
//!
//! - [`group`] is the group within a process;
//! - [`slow_group`] decorates any group with the time of a slower one;
//! - `device_group` leaves the sum to the devices, where they can do it by themselves.
//!
//! [`patient`] are ends without neighbours, for a worker that runs alone.
//!
//! Nothing here computes, and nothing here knows what a message means.

pub(crate) mod collective;
#[cfg(feature = "cuda")]
pub(crate) mod device_group;
pub(crate) mod emulated;
pub(crate) mod group;
pub(crate) mod link;
pub(crate) mod mailbox;
pub(crate) mod patient;
pub(crate) mod ports;
pub(crate) mod slow_group;
pub(crate) mod speed;

#[cfg(test)]
mod tests;
