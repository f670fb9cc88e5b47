//! Collective operations, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// What a collective does with the tensors of its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    /// Every rank ends with the sum.
    AllReduce,
    /// Every rank ends with its part of the sum.
    ReduceScatter,
    /// Every rank ends with the parts of all.
    AllGather,
}

/// One collective among the ranks of a tensor-parallel group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// What is done.
    pub kind: CollectiveKind,
    /// The bytes of the whole tensor, as NCCL's tests count them: of one rank's tensor for an
    /// all-reduce, of the input of a reduce-scatter, of the output of an all-gather.
    #[serde(rename = "bytes")]
    pub size: Bytes,
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
        })
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind, self.size)
    }
}
