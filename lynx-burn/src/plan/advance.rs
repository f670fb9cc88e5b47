//! Which segments may be recomputed before their backward begins.
//!
//! A [policy](super::policy) says what is recomputed; this says what of it may fill a wait instead
//! of delaying the backward. It is a matter of memory: what is rebuilt early is kept until its
//! backward.

use serde::{Deserialize, Serialize};

use crate::ids::SegmentId;

/// When a recomputed segment may be rebuilt before its backward.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Advance {
    /// Only when its backward needs it.
    #[default]
    Never,
    /// In any wait before a backward of the cool-down, when no forward will need the memory.
    CoolDown,
    /// In any wait, once its forward is over and its backward is the stage's next.
    Always,
    /// While the ranks of its stage sum the gradient of that segment's output, in its own backward;
    /// or in a later such sum, if it was not done by then.
    Beside(SegmentId),
}

impl Advance {
    /// Whether it may be, before a backward that is one of the cool-down or not. Of a backward that
    /// has begun, `behind` is the segment whose gradient is being summed.
    pub fn allows(self, cool_down: bool, behind: Option<SegmentId>) -> bool {
        match self {
            Self::Never => false,
            Self::CoolDown => cool_down,
            Self::Always => true,
            // A backward goes from the last segment to the first.
            Self::Beside(segment) => behind.is_some_and(|behind| behind <= segment),
        }
    }
}
