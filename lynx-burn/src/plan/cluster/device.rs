//! One accelerator: how much it holds and how fast it computes.
//!
//! Two rates matter: of matrix products and of memory. A product takes as long as the slower of
//! the two (the roofline model, Williams, Waterman and Patterson, CACM 52(4), 2009).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

/// How numbers are stored and multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 16 bits with the exponent of `f32`.
    #[default]
    Bf16,
    /// 16 bits, IEEE 754.
    F16,
    /// 32 bits.
    F32,
}

/// A text that names no precision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a precision: write bf16, f16 or f32")]
pub struct ParsePrecisionError {
    text: String,
}

/// The rate of dense matrix products for each precision, in 10^12 floating-point operations a
/// second, as data sheets give it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tflops {
    /// Of [`Precision::Bf16`].
    pub bf16: f64,
    /// Of [`Precision::F16`].
    pub f16: f64,
    /// Of [`Precision::F32`].
    pub f32: f64,
}

/// What share of its rate a device reaches in a product of `x` operations: `best * x / (x + half)`.
///
/// The curve rises steadily towards `best`; a product of `half` operations reaches half of that.
/// It says the same as "every product begins with a fixed delay of `half / (rate * best)`", which
/// stands for the launch and for waves that do not fill the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiency {
    /// The share that the largest products reach, above 0 and at most 1.
    pub best: f64,
    /// The size of a product that reaches half of `best`, in 10^9 operations.
    pub half_gflop: f64,
}

/// One accelerator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What it is called.
    pub name: String,
    /// The memory that a process can have.
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// How fast it multiplies matrices at best.
    pub tflops: Tflops,
    /// What of that it reaches.
    pub efficiency: Efficiency,
    /// How fast its memory is, in 10^9 bytes a second, as the data sheet gives it.
    pub memory_gb_s: f64,
    /// The share of that which kernels reach, above 0 and at most 1.
    pub memory_efficiency: f64,
}

impl Precision {
    /// The bytes of one number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

impl Tflops {
    /// The rate for a precision, in 10^12 operations a second.
    pub fn of(&self, precision: Precision) -> f64 {
        match precision {
            Precision::Bf16 => self.bf16,
            Precision::F16 => self.f16,
            Precision::F32 => self.f32,
        }
    }
}

impl Efficiency {
    /// The share reached in a product of this many operations.
    pub fn at(&self, flops: f64) -> f64 {
        let share = self.best * flops / (flops + self.half_gflop * 1e9);
        if share.is_finite() { share } else { 0.0 }
    }
}

impl Device {
    /// How long a matrix product of this many operations takes if its operands are at hand.
    /// Nothing to compute takes no time.
    pub fn product_seconds(&self, flops: f64, precision: Precision) -> f64 {
        if flops <= 0.0 {
            return 0.0;
        }
        let rate = self.tflops.of(precision) * 1e12 * self.efficiency.best;
        (flops + self.efficiency.half_gflop * 1e9) / rate
    }

    /// How long moving this many bytes to or from memory takes.
    pub fn memory_seconds(&self, bytes: f64) -> f64 {
        bytes / (self.memory_gb_s * 1e9 * self.memory_efficiency)
    }

    /// How long a kernel takes that does both at the same time.
    pub fn kernel_time(&self, flops: f64, bytes: f64, precision: Precision) -> Nanos {
        let compute = self.product_seconds(flops, precision);
        Nanos::from_seconds(compute.max(self.memory_seconds(bytes)))
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
        })
    }
}

impl FromStr for Precision {
    type Err = ParsePrecisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "bf16" => Ok(Self::Bf16),
            "f16" => Ok(Self::F16),
            "f32" => Ok(Self::F32),
            _ => Err(ParsePrecisionError {
                text: text.to_owned(),
            }),
        }
    }
}
