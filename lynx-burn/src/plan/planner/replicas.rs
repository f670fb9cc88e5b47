//! Replicas of a pipeline, as far as a plan for one of them depends on the others.

use serde::{Deserialize, Serialize};

use super::setup_error::StageSetupError;
use crate::plan::cluster::Link;
use crate::units::{Bytes, Nanos};

/// Replicas of a pipeline, which sum their gradients at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replicas {
    /// How many there are.
    pub count: usize,
    /// What joins the replicas of a stage; without one, sums take no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
}

/// No machine has as many devices.
const MOST: usize = 1 << 20;

impl Replicas {
    /// Refuses numbers and links that could not be.
    pub(super) fn validate(&self) -> Result<(), StageSetupError> {
        let (count, most) = (self.count, MOST);
        if !(1..=most).contains(&count) {
            return Err(StageSetupError::Replicas { count, most });
        }
        let link = self.link.map(|link| link.validate("replicas.link"));
        link.unwrap_or(Ok(())).map_err(StageSetupError::Cluster)
    }

    /// How long gradients of so many bytes take to be summed.
    pub fn reduction_time(&self, gradients: Bytes) -> Nanos {
        let time = |link: Link| link.all_reduce_time(gradients, self.count);
        self.link.map_or(Nanos::ZERO, time)
    }
}
