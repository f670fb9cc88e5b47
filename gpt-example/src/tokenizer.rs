//! Text as tokens: every byte is one.
//!
//! Any file can be read, nothing has to be trained first, and a loss in nats a token is one in
//! nats a byte, which can be compared with the entropy of the text.

/// Number of different tokens.
pub const VOCABULARY: usize = 256;

/// A model's output for reading: invalid UTF-8 and control characters become `\u{FFFD}`.
///
/// A sample may end in the middle of a character, and an untrained model writes anything.
pub fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|char| match char {
            '\n' | '\t' => char,
            char if char.is_control() => char::REPLACEMENT_CHARACTER,
            char => char,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn valid_text_passes_and_the_rest_is_replaced() {
        assert_eq!(printable("Ärger,\n\tja".as_bytes()), "Ärger,\n\tja");
        assert_eq!(printable(b"a\x1b[2Jb\xc3"), "a\u{FFFD}[2Jb\u{FFFD}");
    }
}
