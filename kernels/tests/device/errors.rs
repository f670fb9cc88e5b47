//! What makes no sense is refused, by name, and without a panic.
