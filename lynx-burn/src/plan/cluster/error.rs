//! What can be wrong with a cluster.

use std::ops::RangeInclusive;

use super::{Cluster, Contention, Device, Link, Window};

/// A description that is no cluster.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClusterError {
    /// A figure is no number, or beyond anything a machine could be.
    #[error("{field} is {value}, but must lie within {least:e} and {most:e}")]
    OutOfRange {
        /// Where it stands, as a path in the file.
        field: String,
        /// What stands there.
        value: f64,
        /// The least that is accepted.
        least: f64,
        /// The most that is accepted.
        most: f64,
    },
    /// A name is missing.
    #[error("{field} is empty: tables and errors need a name")]
    NoName {
        /// Where it stands, as a path in the file.
        field: &'static str,
    },
}

/// Rates span what a person could mean: from a toy to a thousand of today's machines.
const RATE: RangeInclusive<f64> = 1e-6..=1e9;
/// A share that is not nothing.
const SHARE: RangeInclusive<f64> = 1e-6..=1.0;
/// A pebibyte.
const MOST_BYTES: f64 = (1_u64 << 50) as f64;
/// A bit more than an hour.
const MOST_NANOS: f64 = (1_u64 << 42) as f64;

impl Cluster {
    /// Refuses figures that are no numbers or so absurd that costs would not be finite.
    ///
    /// Nothing is promised about the times of a cluster that was built by hand until this has
    /// accepted it, except that computing them does not panic.
    pub fn validate(&self) -> Result<(), ClusterError> {
        if self.name.is_empty() {
            return Err(ClusterError::NoName { field: "name" });
        }
        self.device.validate()?;
        self.intra_node.validate("intra_node")?;
        self.inter_node.validate("inter_node")?;
        let devices = self.devices_per_node as f64;
        within("devices_per_node", devices, 1.0..=1e6)?;
        self.contention.validate()
    }
}

impl Device {
    fn validate(&self) -> Result<(), ClusterError> {
        if self.name.is_empty() {
            let field = "device.name";
            return Err(ClusterError::NoName { field });
        }
        let memory = self.memory.0 as f64;
        within("device.memory_bytes", memory, 1.0..=MOST_BYTES)?;
        within("device.tflops.bf16", self.tflops.bf16, RATE)?;
        within("device.tflops.f16", self.tflops.f16, RATE)?;
        within("device.tflops.f32", self.tflops.f32, RATE)?;
        within("device.efficiency.best", self.efficiency.best, SHARE)?;
        let half = self.efficiency.half_gflop;
        within("device.efficiency.half_gflop", half, 0.0..=1e9)?;
        within("device.memory_gb_s", self.memory_gb_s, RATE)?;
        within("device.memory_efficiency", self.memory_efficiency, SHARE)
    }
}

impl Link {
    pub(in crate::plan) fn validate(&self, place: &str) -> Result<(), ClusterError> {
        within(&format!("{place}.gb_s"), self.gb_s, RATE)?;
        let latency = self.latency.0 as f64;
        within(&format!("{place}.latency_ns"), latency, 0.0..=MOST_NANOS)
    }
}

impl Contention {
    fn validate(&self) -> Result<(), ClusterError> {
        Window::ALL.into_iter().try_for_each(|window| {
            let field = format!("contention.{window}");
            within(&field, self.factor(window), 0.0..=1.0)
        })
    }
}

fn within(field: &str, value: f64, range: RangeInclusive<f64>) -> Result<(), ClusterError> {
    // NaN is in no range.
    if range.contains(&value) {
        return Ok(());
    }
    Err(ClusterError::OutOfRange {
        field: field.to_owned(),
        value,
        least: *range.start(),
        most: *range.end(),
    })
}
