//! What the benchmarks share: rounds in which variants take turns, honest statistics, and a
//! description of the machine.
//!
//! A shared machine changes speed from minute to minute. So variants are interleaved, each round
//! runs every variant once, and what is reported beside the median time is the median of the
//! *ratios within a round*, with their range.

pub mod evaluation;
pub mod frameworks;
pub mod links;
pub mod machine {
    //! On what machine a figure was measured.
    pub use gpt_example::bench::Machine;
}
pub mod rounds;
pub mod twins;
