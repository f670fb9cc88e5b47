//! Which device each worker has.

use burn::prelude::*;

use super::{BuildError, TrainerBuilder};

/// Each is a thread, of which no system starts as many.
const MOST: usize = 1 << 16;

impl TrainerBuilder {
    /// One device a worker, outside autodiff.
    pub(super) fn worker_devices(&self, stages: usize) -> Result<Vec<Device>, BuildError> {
        let (ranks, plain) = (self.ranks, |device: &Device| device.clone().inner());
        let pipeline = stages.saturating_mul(ranks);
        let workers = pipeline.saturating_mul(self.replicas);
        if workers > MOST {
            return Err(BuildError::TooManyWorkers {
                workers,
                most: MOST,
            });
        }
        let of_pipeline: Vec<Device> = match self.devices.as_slice() {
            [] => vec![plain(&Device::default()); pipeline],
            [one] => vec![plain(one); pipeline],
            many if many.len() == workers => return Ok(many.iter().map(plain).collect()),
            many if many.len() == pipeline => many.iter().map(plain).collect(),
            many if many.len() == stages => {
                let each = many.iter().flat_map(|one| std::iter::repeat_n(one, ranks));
                each.map(plain).collect()
            }
            many => {
                return Err(BuildError::Devices {
                    devices: many.len(),
                    stages,
                    ranks,
                    replicas: self.replicas,
                });
            }
        };
        let all = (0..workers).map(|worker| of_pipeline[worker % pipeline].clone());
        Ok(all.collect())
    }
}
