//! Quantities with their unit in the type.

mod bytes;
mod nanos;

pub use bytes::{Bytes, ParseBytesError};
pub use nanos::{Nanos, ParseNanosError};
