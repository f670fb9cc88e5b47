//! Names of devices on the command line.
//!
//! Which backends exist is decided when the program is built; a name of another one is known, and
//! the error says how to get it.

use std::fmt;
use std::str::FromStr;

use burn::prelude::*;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A device by name: `flex`, `wgpu`, `cuda:0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceName {
    /// The CPU.
    #[default]
    Flex,
    /// The first GPU that wgpu finds.
    Wgpu,
    /// An NVIDIA GPU by number.
    Cuda(usize),
}

/// A name of no device of this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Not a name.
    #[error("{0:?} is not a device: write flex, wgpu or cuda:0")]
    Unknown(String),
    /// Its backend is not part of this build.
    #[error("{name} is not part of this build: build with --features {feature}")]
    NotBuilt {
        /// The device.
        name: DeviceName,
        /// The feature that brings it.
        feature: &'static str,
    },
}

impl DeviceName {
    /// The device itself.
    ///
    /// # Errors
    ///
    /// If its backend was not built.
    pub fn open(self) -> Result<Device, DeviceError> {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => Ok(Device::flex()),
            #[cfg(not(feature = "flex"))]
            Self::Flex => Err(DeviceError::NotBuilt {
                name: self,
                feature: "flex",
            }),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(not(feature = "wgpu"))]
            Self::Wgpu => Err(DeviceError::NotBuilt {
                name: self,
                feature: "wgpu",
            }),
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => Ok(Device::cuda(index)),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => Err(DeviceError::NotBuilt {
                name: self,
                feature: "cuda",
            }),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flex => f.write_str("flex"),
            Self::Wgpu => f.write_str("wgpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || DeviceError::Unknown(text.to_owned());
        match text.split_once(':') {
            None if text == "flex" => Ok(Self::Flex),
            None if text == "wgpu" => Ok(Self::Wgpu),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            Some(("cuda", index)) => index.parse().map(Self::Cuda).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

impl Serialize for DeviceName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_they_are_written() {
        for name in ["flex", "wgpu", "cuda:3"] {
            assert_eq!(
                name.parse::<DeviceName>().map(|n| n.to_string()).as_deref(),
                Ok(name)
            );
        }
        assert_eq!("cuda".parse(), Ok(DeviceName::Cuda(0)));
        for name in ["", "cpu", "cuda:x", "flex:0"] {
            assert!(name.parse::<DeviceName>().is_err(), "{name}");
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_that_was_not_built_is_refused_with_the_feature_to_build() {
        let error = DeviceName::Cuda(1)
            .open()
            .expect_err("not built")
            .to_string();
        assert!(
            error.contains("cuda:1") && error.contains("--features cuda"),
            "{error}"
        );
    }
}
