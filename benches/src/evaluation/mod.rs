//! The paper's comparison, simulated: GPTs on clusters under every strategy.
//!
//! [`settings`] says what is compared, [`run`] plans and simulates it, [`summary`] holds the
//! figures against what was hoped for, and [`report`] and [`plot`] write them down. Costs are the
//! analytic profile's and the presets'; nothing here is fitted to a result.

pub mod plot;
pub mod report;
pub mod run;
pub mod settings;
pub mod summary;
