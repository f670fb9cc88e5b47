//! Which device each worker has.

use burn::prelude::*;

use super::{BuildError, TrainerBuilder};

impl TrainerBuilder {
    /// One device a worker, outside autodiff.
    pub(super) fn worker_devices(&self, stages: usize) -> Result<Vec<Device>, BuildError> {
        let (ranks, plain) = (self.ranks, |device: &Device| device.clone().inner());
        let (pipeline, workers) = (stages * ranks, stages * ranks * self.replicas);
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
