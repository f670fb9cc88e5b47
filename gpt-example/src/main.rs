//! The `gpt` command.
fn main() {}
