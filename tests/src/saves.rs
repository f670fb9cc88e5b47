//! What saves are compared by.

use lynx_burn::Save;
use serde_json::Value;

/// All that is in a save's two big files.
#[derive(PartialEq)]
pub struct Contents {
    /// Of the weights: their names, types, shapes and places. Its text has metadata in any order.
    pub header: Value,
    weights: Vec<u8>,
    states: Vec<u8>,
}

impl Contents {
    /// Reads both.
    ///
    /// # Panics
    ///
    /// If one cannot be read.
    pub fn of(save: &Save) -> Self {
        let read = |path| std::fs::read(path).expect("read");
        let file = read(save.weights());
        let (length, rest) = file.split_at(8);
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let (header, weights) = rest.split_at(length as usize);
        Self {
            header: serde_json::from_slice(header).expect("a header"),
            weights: weights.to_vec(),
            states: read(save.path().join("optimizer.bpk")),
        }
    }
}
