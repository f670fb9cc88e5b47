//! How fast a link is, as a person writes it.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::plan::cluster::{Link, LinkKind};
use crate::units::{Bytes, Nanos, ParseBytesError, ParseNanosError};

/// Bandwidth and latency of one direction of a link.
///
/// Read and written as `1GB/s,50us`: bytes a second with the units of [`Bytes`], and the latency
/// with those of [`Nanos`], which may be left out if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkSpeed {
    /// What it carries in a second.
    pub bytes_per_second: NonZeroU64,
    /// How long after it has left a message can be read.
    pub latency: Nanos,
}

/// A text that is no speed of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseLinkSpeedError {
    /// The part before the comma does not end in `/s`.
    #[error("{0:?} is not a bandwidth: write it like 1GB/s or 300MiB/s")]
    NotPerSecond(String),
    /// The part before the comma is not a number of bytes.
    #[error("no bandwidth: {0}")]
    Bandwidth(#[from] ParseBytesError),
    /// Nothing would ever arrive.
    #[error("a link of less than a byte per second ({0:?}) carries nothing")]
    Nothing(String),
    /// The part after the comma is not a span of time.
    #[error("no latency: {0}")]
    Latency(#[from] ParseNanosError),
}

impl LinkSpeed {
    /// How long a message of so many bytes occupies the link, rounded up; the latency comes after
    /// that.
    pub fn wire_time(&self, bytes: u64) -> Nanos {
        let nanos = u128::from(bytes) * 1_000_000_000;
        let time = nanos.div_ceil(u128::from(self.bytes_per_second.get()));
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

impl From<LinkSpeed> for Link {
    /// The link as planners know it.
    fn from(speed: LinkSpeed) -> Self {
        Self {
            kind: LinkKind::InProcess,
            gb_s: speed.bytes_per_second.get() as f64 / 1e9,
            latency: speed.latency,
        }
    }
}

/// The largest unit that divides a number, with its name; otherwise the last.
fn exactly(number: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, unit): &&(&str, u64)| number >= *unit && number.is_multiple_of(*unit);
    match units.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", number / unit),
        None => number.to_string(),
    }
}

impl fmt::Display for LinkSpeed {
    /// Exactly what it is, so that it reads back as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bandwidth = exactly(
            self.bytes_per_second.get(),
            &[
                ("GB", 1_000_000_000),
                ("GiB", 1 << 30),
                ("MB", 1_000_000),
                ("MiB", 1 << 20),
                ("kB", 1_000),
                ("KiB", 1 << 10),
                ("B", 1),
            ],
        );
        let units = [
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1_000),
            ("ns", 1),
        ];
        let latency = match self.latency {
            Nanos::ZERO => "0ns".to_owned(),
            Nanos(latency) => exactly(latency, &units),
        };
        f.pad(&format!("{bandwidth}/s,{latency}"))
    }
}

impl FromStr for LinkSpeed {
    type Err = ParseLinkSpeedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (bandwidth, latency) = match text.split_once(',') {
            Some((bandwidth, latency)) => (bandwidth, latency.parse()?),
            None => (text, Nanos::ZERO),
        };
        let bytes: Bytes = bandwidth
            .trim()
            .strip_suffix("/s")
            .ok_or_else(|| ParseLinkSpeedError::NotPerSecond(bandwidth.to_owned()))?
            .parse()?;
        let bytes_per_second = NonZeroU64::new(bytes.0)
            .ok_or_else(|| ParseLinkSpeedError::Nothing(bandwidth.to_owned()))?;
        Ok(Self {
            bytes_per_second,
            latency,
        })
    }
}

impl TryFrom<String> for LinkSpeed {
    type Error = ParseLinkSpeedError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<LinkSpeed> for String {
    fn from(speed: LinkSpeed) -> Self {
        speed.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(bytes_per_second: u64, latency: u64) -> LinkSpeed {
        LinkSpeed {
            bytes_per_second: NonZeroU64::new(bytes_per_second).expect("some"),
            latency: Nanos(latency),
        }
    }

    #[test]
    fn decimal_and_binary_units_are_told_apart() {
        let cases = [
            ("1GB/s,50us", speed(1_000_000_000, 50_000)),
            ("1GiB/s,50µs", speed(1 << 30, 50_000)),
            (" 1.5MB/s , 2 ms ", speed(1_500_000, 2_000_000)),
            ("8KiB/s", speed(8192, 0)),
            ("7B/s,1s", speed(7, 1_000_000_000)),
            ("300/s,3ns", speed(300, 3)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert_eq!(expected.to_string().parse(), Ok(expected), "{expected}");
        }
        assert_eq!(speed(1_000_000_000, 50_000).to_string(), "1GB/s,50us");
        assert_eq!(speed(1025, 0).to_string(), "1025B/s,0ns");
    }

    #[test]
    fn nonsense_is_refused_with_its_text() {
        use ParseLinkSpeedError::{Bandwidth, Latency, NotPerSecond, Nothing};
        let kind = |text: &str| text.parse::<LinkSpeed>().expect_err(text);
        assert!(matches!(kind("1GB,50us"), NotPerSecond(_)));
        assert!(matches!(kind(""), NotPerSecond(_)));
        assert!(matches!(kind("fast/s"), Bandwidth(_)));
        assert!(matches!(kind("-1GB/s"), Bandwidth(_)));
        assert!(matches!(kind("0.2B/s"), Nothing(_)));
        assert!(matches!(kind("1GB/s,"), Latency(_)));
        assert!(matches!(kind("1GB/s,50"), Latency(_)));
        for (text, named) in [("fast/s", "fast"), ("1GB/s,soon", "soon"), ("3GB", "3GB")] {
            assert!(kind(text).to_string().contains(named), "{}", kind(text));
        }
    }

    #[test]
    fn the_wire_is_occupied_for_the_bytes_over_the_bandwidth() {
        assert_eq!(speed(1_000_000_000, 9).wire_time(5000), Nanos(5000));
        assert_eq!(speed(3, 0).wire_time(1), Nanos(333_333_334));
        assert_eq!(speed(1, 0).wire_time(u64::MAX), Nanos(u64::MAX));
    }
}
