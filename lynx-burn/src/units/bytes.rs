//! Numbers of bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes. Prints and parses with units: `300MiB`, `1.5GiB`, `2GB`, `4096`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A text that is no quantity of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a number of bytes: write it like 4096, 300MiB or 1.5GB")]
pub struct ParseBytesError {
    text: String,
}

const BINARY: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];
const DECIMAL: [(&str, u64); 4] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match BINARY.iter().find(|(_, unit)| self.0 >= *unit) {
            Some((name, unit)) => f.pad(&format!("{:.1} {name}", self.0 as f64 / *unit as f64)),
            None => f.pad(&format!("{} B", self.0)),
        }
    }
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseBytesError {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        let (number, unit) = BINARY
            .iter()
            .chain(&DECIMAL)
            .find_map(|(name, unit)| Some((trimmed.strip_suffix(name)?, *unit)))
            .unwrap_or_else(|| (trimmed.strip_suffix('B').unwrap_or(trimmed), 1));
        let number: f64 = number.trim_end().parse().map_err(|_| refused())?;
        let bytes = number * unit as f64;
        if bytes.is_finite() && (0.0..=u64::MAX as f64).contains(&bytes) {
            Ok(Self(bytes.round() as u64))
        } else {
            Err(refused())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn quantities_are_read_with_and_without_units() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("12B", 12),
            ("300MiB", 300 << 20),
            ("1.5 GiB", 3 << 29),
            ("2GB", 2_000_000_000),
            (" 7kB ", 7000),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_text() {
        for text in ["", "MiB", "-1", "1e400", "NaN", "12 parsecs"] {
            let error = text.parse::<Bytes>().expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn the_largest_fitting_unit_is_printed() {
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(3 << 19).to_string(), "1.5 MiB");
        assert_eq!(format!("{:>9}|", Bytes(1 << 30)), "  1.0 GiB|");
    }
}
